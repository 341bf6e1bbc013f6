// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

const notFound = providers.NotFound

func with(f cloud.Fault) func(*World, *call, int) {
	return func(_ *World, c *call, _ int) { c.cloud = f }
}

// answers is a fault that answers calls with an error of a class; nothing is done.
func answers(name string, class providers.ErrorClass, hits []Op, patience Duration) kind {
	return kind{name: name, hits: hits, patience: patience, strike: with(cloud.Fault{Class: class})}
}

// down is a fault that answers every call for a while.
func down(name string, class providers.ErrorClass, arg int, patience Duration) kind {
	return kind{name: name, args: []int{arg}, hits: cloudCalls, perArg: true, patience: patience, strike: func(w *World, _ *call, n int) {
		w.cloud.SetDown(class)
		w.later(seconds(n), func() { w.cloud.SetDown("") })
	}}
}

// cloudFaults are of the cloud's API.
func cloudFaults() []kind {
	creates, reads := []Op{Create}, []Op{Get, List}
	return []kind{
		answers("cloud-500", providers.Transient, cloudCalls, 0),
		answers("not-arrived", providers.Ambiguous, cloudMutation, 0),
		answers("quota", providers.QuotaExceeded, creates, 6*time.Minute),
		{name: "no-room", args: []int{600}, hits: creates, perArg: true, patience: 6 * time.Minute, strike: func(w *World, _ *call, n int) {
			w.cloud.SetQuota(0)
			w.later(seconds(n), func() { w.cloud.SetQuota(-1) })
		}},
		answers("full", providers.Capacity, creates, 6*time.Minute),
		answers("denied", providers.Denied, cloudCalls, 6*time.Minute),
		answers("invalid", providers.Permanent, creates, 31*time.Minute),
		// Somebody else's machine has the name.
		{name: "name-taken", hits: creates, patience: 31 * time.Minute, strike: func(w *World, c *call, _ int) {
			k := c.request.Key
			w.foreign = append(w.foreign, w.cloud.PlantForeign(k.Account, k.Zone, c.request.Name))
		}},
		// Creates are refused for a while, as by a policy of the account.
		{name: "refused", args: []int{600}, hits: creates, perArg: true, patience: 31 * time.Minute, strike: func(w *World, c *call, n int) {
			w.refused = w.now().Add(seconds(n))
			w.outages(c)
		}},
		answers("get-404", providers.NotFound, []Op{Get}, 0),
		{name: "throttled", hits: cloudCalls, strike: with(cloud.Fault{Class: providers.Throttled, RetryAfter: 90 * time.Second})},
		{name: "lost", hits: cloudCalls, strike: with(cloud.Fault{LoseAnswer: true})},
		{name: "late", args: []int{20, 55}, hits: cloudMutation, perArg: true, costs: 1, strike: func(_ *World, c *call, n int) {
			c.cloud.Late = seconds(n)
		}},
		// Accepted, and the operation fails afterwards.
		{name: "undone", hits: creates, lasting: 10 * time.Second, costs: 1, strike: with(cloud.Fault{VanishAfter: 10 * time.Second})},
		{name: "page-fails", hits: []Op{List}, strike: with(cloud.Fault{FailPage: 1})},
		{name: "page-missing", hits: []Op{List}, strike: with(cloud.Fault{DropPage: 1})},
		{name: "other-account", hits: reads, strike: with(cloud.Fault{Account: accounts[1]})},
		{name: "gets-404", args: []int{60}, hits: reads, perArg: true, strike: func(w *World, c *call, n int) {
			w.gets404 = w.now().Add(seconds(n))
			w.outages(c)
		}},
		down("cloud-down", providers.Transient, 120, 6*time.Minute),
		down("keys-lost", providers.Denied, 120, 6*time.Minute),
	}
}
