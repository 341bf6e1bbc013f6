// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

// idleAfter is twice what a leader may take to renew its lease before another one takes it.
const idleAfter = 30 * time.Second

// leadership is what somebody has seen of the leader who looks at its lease again and again.
type leadership struct {
	check   Check
	clock   clock.PassiveClock
	renewed *metav1.MicroTime
	at      time.Time // when it was first seen renewed so, by the own clock
}

// missing tells why no operator works, as far as that is known; it is empty if one does, and where the lease may not be read.
func (l *leadership) missing(ctx context.Context) string {
	if l.check.Lease.Name == "" {
		return ""
	}
	renewed, err := l.check.renewed(ctx)
	switch {
	case apierrors.IsNotFound(err), errors.Is(err, errNobody):
		return err.Error()
	case err != nil:
		return ""
	case !renewed.Equal(l.renewed):
		l.renewed, l.at = renewed, l.clock.Now()
	}
	if idle := l.clock.Since(l.at); idle >= idleAfter {
		return fmt.Sprintf("nobody has renewed the lease %s for %s", l.check.Lease, idle.Round(time.Second))
	}
	return ""
}
