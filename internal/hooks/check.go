// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	checkEvery  = time.Second
	answerLimit = 5 * time.Second
)

var errNobody = errors.New("nobody holds the lease")

// Check finds out whether an installed operator works. Its client must be able to get the lease.
type Check struct {
	Client client.Reader
	Clock  clock.Clock
	// Lease is the one of the leader; without a name it isn't looked at.
	Lease types.NamespacedName
	// URLs must answer 200.
	URLs []string
	// Timeout bounds the whole.
	Timeout time.Duration
}

// Run returns nil once the leader has renewed its lease while this looked, and every URL has answered. The error is about what was
// missing last.
func (c *Check) Run(ctx context.Context) error {
	deadline := c.Clock.Now().Add(c.Timeout)
	var first *metav1.MicroTime
	for {
		err := c.answers(ctx)
		if c.Lease.Name != "" && err == nil {
			var renewed *metav1.MicroTime
			renewed, err = c.renewed(ctx)
			// The times are of another machine's clock: only that they differ says something.
			switch {
			case err != nil:
			case first == nil:
				first, err = renewed, errors.New("the leader has not renewed its lease yet")
			case first.Equal(renewed):
				err = errors.New("the leader doesn't renew its lease")
			}
		}
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if !c.Clock.Now().Before(deadline) {
			return fmt.Errorf("after %s: %w", c.Timeout, err)
		}
		select {
		case <-ctx.Done():
		case <-c.Clock.After(checkEvery):
		}
	}
}

func (c *Check) renewed(ctx context.Context) (*metav1.MicroTime, error) {
	var lease coordinationv1.Lease
	if err := c.Client.Get(ctx, c.Lease, &lease); err != nil {
		return nil, fmt.Errorf("get the lease %s: %w", c.Lease, err)
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.RenewTime == nil {
		return nil, fmt.Errorf("%w %s", errNobody, c.Lease)
	}
	return lease.Spec.RenewTime, nil
}

func (c *Check) answers(ctx context.Context) error {
	for _, url := range c.URLs {
		if err := answers(ctx, url); err != nil {
			return fmt.Errorf("ask for %s: %w", url, err)
		}
	}
	return nil
}

func answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	// Not through a proxy that the environment names: what is asked for is in this cluster.
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}
