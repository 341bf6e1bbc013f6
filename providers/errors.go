// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"errors"
	"fmt"
	"time"
)

// ErrorClass tells a caller what to do about a provider's error.
type ErrorClass string

// The classes. On a mutation every class but Ambiguous promises that nothing was changed.
const (
	Transient     ErrorClass = "Transient"     // try again with backoff
	Ambiguous     ErrorClass = "Ambiguous"     // sent, answer lost: look before trying again
	Throttled     ErrorClass = "Throttled"     // wait RetryAfter
	QuotaExceeded ErrorClass = "QuotaExceeded" // the account is full: wait long, tell the user
	Capacity      ErrorClass = "Capacity"      // the zone is full: another one may do
	Denied        ErrorClass = "Denied"        // credentials or permission: wait for them to change
	Permanent     ErrorClass = "Permanent"     // this request can never work: wait for its inputs to change
	NotFound      ErrorClass = "NotFound"
)

// Classes lists every class, for tables and tests.
func Classes() []ErrorClass {
	return []ErrorClass{Transient, Ambiguous, Throttled, QuotaExceeded, Capacity, Denied, Permanent, NotFound}
}

// Codes that providers of any vendor use.
const (
	CodeNameConflict = "NameConflict" // our name is held by a machine that isn't ours
	CodeUnsupported  = "Unsupported"  // this account's type can't act on a field or value
	CodeWrongAccount = "WrongAccount" // the Ref names another account
)

// Codes of the operator's own guards. With them nothing was sent, and RetryAfter is set.
const (
	CodeRateLimited  = "RateLimited"  // the account's turn comes later
	CodeBusy         = "Busy"         // as many calls are under way as may be
	CodeBackingOff   = "BackingOff"   // the cloud asked to wait, and the time isn't over
	CodeCircuitOpen  = "CircuitOpen"  // the cloud failed too often in a row
	CodeGateClosed   = "GateClosed"   // another Proxy was just told that there is no quota or capacity; one at a time asks again
	CodeMaxInstances = "MaxInstances" // the account holds as many machines as its limits allow
)

// Error is the only error type that crosses the seam.
type Error struct {
	Class      ErrorClass
	Op         string        // "create instance"
	Code       string        // the vendor's error code, stable from call to call; shown in status
	Field      string        // the spec field at fault, "spec.location.zones"; shown in status
	Want       string        // what to write there instead, a fixed sentence; shown in status
	Advice     string        // what is wrong and what to do about it, in fixed sentences, where the class alone can't tell; shown in status
	RetryAfter time.Duration // 0: the caller decides
	Held       bool          // a guard of ours refused the call: nothing was sent
	Answered   bool          // the cloud itself said no: Transient as it may be, its API works
	Err        error         // the vendor's own words: for log and Event only, never for status
}

// Error returns operation, class and cause in one line.
func (e *Error) Error() string {
	s := e.Op + ": " + string(e.Class)
	if e.Code != "" {
		s += " (" + e.Code + ")"
	}
	if e.Field != "" {
		s += ": " + e.Field + ": " + e.Want
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ReadClass is the class of an error from Get or ListByTag: an error without a class is Transient.
func ReadClass(err error) ErrorClass { return Class(err, Transient) }

// MutationClass is the class of an error from Create or Delete: an error without a class may hide a success, so it is
// Ambiguous (kubernetes-sigs/cluster-api-provider-aws#5794 took it for a failure and made a machine at every restart).
func MutationClass(err error) ErrorClass { return Class(err, Ambiguous) }

// Class returns the class of err, or unclassed if it carries none. A nil error has the empty class.
func Class(err error, unclassed ErrorClass) ErrorClass {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) && e.Class != "" {
		return e.Class
	}
	return unclassed
}

// Is reports whether err is of class c.
func Is(err error, c ErrorClass) bool {
	var e *Error
	return errors.As(err, &e) && e.Class == c
}

// IsHeld reports whether a guard of ours refused the call, so that nothing was sent.
func IsHeld(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Held
}

// isAnswer reports whether an error, or none, of that class shows that the cloud's API works.
func isAnswer(err error, class ErrorClass) bool {
	var e *Error
	return !silent(class) || errors.As(err, &e) && e.Answered
}

// Unsupported returns the Permanent error for a spec field or value that an account can't act on. want says what to
// write instead.
func Unsupported(field, want string) error {
	return &Error{Class: Permanent, Op: "check request", Code: CodeUnsupported, Field: field, Want: want}
}

// Gone returns the NotFound error for ref.
func Gone(op string, ref Ref) error {
	return &Error{Class: NotFound, Op: op, Err: fmt.Errorf("no instance at %s", ref)}
}

// Conflict returns the error for a machine that holds name but isn't ours.
func Conflict(op, name string) error {
	return &Error{
		Class: Permanent, Op: op, Code: CodeNameConflict,
		Err: fmt.Errorf("name %s is held by an instance that does not carry this Proxy's tags", name),
	}
}
