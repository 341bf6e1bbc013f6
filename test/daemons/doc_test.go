// SPDX-License-Identifier: Apache-2.0

// Package daemons_test probes the proxies that people run: squid, tinyproxy and
// dante, each as the distribution packages it, on loopback. Linux only: dante's
// users come from libnss-wrapper.
package daemons_test
