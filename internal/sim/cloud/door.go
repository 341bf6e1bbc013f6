// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"errors"
	"fmt"
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

// Op is what a call asks for, in the words of its errors.
type Op string

// The calls.
const (
	OpCreate Op = "create instance"
	OpGet    Op = "get instance"
	OpDelete Op = "delete instance"
	OpList   Op = "list instances"
)

// mutates reports whether a lost answer leaves a doubt.
func (o Op) mutates() bool { return o == OpCreate || o == OpDelete }

// Call is one call at the provider's door.
type Call struct {
	N        int // among all calls, from 1
	OpN      int // among the calls of this Op, from 1
	Op       Op
	At       time.Time
	Account  string
	Request  providers.CreateRequest // of a create
	Ref      providers.Ref           // of a get or delete; of a create that was answered: where it is
	Selector providers.Selector      // of a list
	// Answered is false while the call runs, and for ever if the caller died in it.
	Answered bool
	// Class of the answer; empty: no error.
	Class providers.ErrorClass
}

// Door decides what goes wrong with a call. It is asked when the call has been counted and before it is sent, and may
// move the clock, look at and change the cloud, cancel the caller's context (then nothing is sent) or panic (a crash
// before the call).
type Door func(Call) Fault

// Fault is what goes wrong with one call. The zero Fault is a good day.
type Fault struct {
	// Class answers the call with an error, and nothing is done. On a get, NotFound is the lie about the living; on a
	// mutation, Ambiguous is a call that never arrived.
	Class providers.ErrorClass
	// RetryAfter goes with Class.
	RetryAfter time.Duration
	// Account answers a read from another account, as after a change of credentials.
	Account string
	// Late answers a mutation with a timeout now, and lets it take effect that much later. What is longer than the
	// profile's CallDeadline breaks its promise.
	Late time.Duration
	// LoseAnswer lets the call take effect and times out.
	LoseAnswer bool
	// VanishAfter accepts a create, and takes the instance away again after that time: quota found in the operation.
	VanishAfter time.Duration
	// FailPage is the page, from 1, at which a list breaks off with an error; DropPage the one that it leaves out without.
	FailPage, DropPage int // AllPages: it leaves every one out
	// After runs when the call has taken effect and before it is answered. It may do what a Door may: cancelling the
	// caller's context loses the answer, a panic is a crash after the call.
	After func()
}

// SetDoor puts d at the door; nil: nothing goes wrong.
func (c *Cloud) SetDoor(d Door) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.door = d
}

// enter counts a call.
func (c *Cloud) enter(k Call) (Call, Door) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opCalls[k.Op]++
	k.N, k.OpN, k.At = len(c.calls)+1, c.opCalls[k.Op], c.clock.Now()
	c.calls = append(c.calls, k)
	return k, c.door
}

// leave notes how call n was answered.
func (c *Cloud) leave(n int, ref providers.Ref, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.calls[n-1]
	k.Answered, k.Class = true, providers.Class(err, "")
	if k.Op == OpCreate {
		k.Ref = ref
	}
}

// refusal is an error in the vendor's words, which differ from call to call as request ids do. The caller holds mu.
func (c *Cloud) refusal(op Op, class providers.ErrorClass, after time.Duration) error {
	if class == providers.Throttled && after == 0 {
		after = retryAfter
	}
	c.requests++
	return &providers.Error{
		Class: class, Op: string(op), Code: "Model" + string(class), RetryAfter: after,
		Err: fmt.Errorf("the cloud says no (request id %016x)", mix(c.seed^0x5eed, c.requests)),
	}
}

// retryAfter is the wait that a throttled caller is told.
const retryAfter = 30 * time.Second

// unsent is the answer to a caller whose context ended before the call was sent: nothing was done.
func unsent(op Op, cause error) error {
	return &providers.Error{Class: providers.Transient, Op: string(op), Err: fmt.Errorf("not sent: %w", cause)}
}

// lost is the answer to a call that was sent and not answered in time.
func lost(op Op, cause error) error {
	class := providers.Transient
	if op.mutates() {
		class = providers.Ambiguous
	}
	return &providers.Error{Class: class, Op: string(op), Err: fmt.Errorf("answer lost: %w", cause)}
}

// AllPages is a DropPage: the list shows nothing.
const AllPages = -1

// RetryAfter is the wait that an answer asks for; 0: none.
func RetryAfter(err error) time.Duration {
	var e *providers.Error
	if errors.As(err, &e) && e.Class == providers.Throttled {
		return e.RetryAfter
	}
	return 0
}
