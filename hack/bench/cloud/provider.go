// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	opCreate = "create instance"
	opGet    = "get instance"
	opDelete = "delete instance"
	opList   = "list instances"

	callDeadline = 30 * time.Second
)

// Provider is one account of a Cloud, as the manager sees it.
type Provider struct {
	account string
	base    string
	zones   []string
	client  *http.Client
	further func(context.Context)
}

var _ providers.Provider = (*Provider)(nil)

// NewProvider returns the account at the base URL of a Cloud. further is called before each page of a list but the
// first, for who counts calls; it may be nil.
func NewProvider(account, base string, zones []string, further func(context.Context)) *Provider {
	if further == nil {
		further = func(context.Context) {}
	}
	return &Provider{account: account, base: base, zones: zones, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}, further: further}
}

// Traits tells that names are unique and that reads are exact.
func (p *Provider) Traits() providers.Traits {
	return providers.Traits{UniqueNames: true, CallDeadline: callDeadline}
}

// Create makes the machine, or finds the one that holds its name.
func (p *Provider) Create(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	if !slices.Contains(p.zones, req.Key.Zone) {
		return providers.Instance{}, providers.Unsupported("spec.location.zones", "use zones of this account: "+strings.Join(p.zones, ", "))
	}
	body, err := json.Marshal(machine{Port: req.Port, Tags: req.Tags})
	if err != nil {
		return providers.Instance{}, &providers.Error{Class: providers.Permanent, Op: opCreate, Err: err}
	}
	var m machine
	err = p.call(ctx, opCreate, http.MethodPut, "/"+req.Key.Zone+"/"+req.Name, body, &m)
	var refused *providers.Error
	if errors.As(err, &refused) && refused.Code == strconv.Itoa(http.StatusConflict) {
		return providers.Instance{}, providers.Conflict(opCreate, req.Name)
	}
	if err != nil {
		return providers.Instance{}, err
	}
	return p.instance(req.Key.Zone, m), nil
}

// Get reads one machine.
func (p *Provider) Get(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
	zone, err := p.zoneOf(opGet, ref)
	if err != nil {
		return providers.Instance{}, err
	}
	var m machine
	if err := p.call(ctx, opGet, http.MethodGet, "/"+ref.Path, nil, &m); err != nil {
		return providers.Instance{}, err
	}
	return p.instance(zone, m), nil
}

// Delete removes one machine; it is gone when Delete returns.
func (p *Provider) Delete(ctx context.Context, ref providers.Ref) error {
	if _, err := p.zoneOf(opDelete, ref); err != nil {
		return err
	}
	return p.call(ctx, opDelete, http.MethodDelete, "/"+ref.Path, nil, nil)
}

// ListByTag reads all pages of all zones.
func (p *Provider) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	var all []providers.Instance
	for n, zone := range p.zones {
		for after, first := "", n == 0; ; first = false {
			if !first {
				p.further(ctx)
			}
			query := url.Values{"installation": {sel.Installation}, "owner": {sel.OwnerUID}, "after": {after}}
			var answer page
			if err := p.call(ctx, opList, http.MethodGet, "/"+zone+"?"+query.Encode(), nil, &answer); err != nil {
				return nil, err
			}
			for _, m := range answer.Items {
				all = append(all, p.instance(zone, *m))
			}
			if after = answer.Next; after == "" {
				break
			}
		}
	}
	return all, nil
}

func (p *Provider) instance(zone string, m machine) providers.Instance {
	return providers.Instance{
		Ref: providers.Ref{Account: p.account, Path: zone + "/" + m.Name}, Name: m.Name, Zone: zone, State: providers.InstanceState(m.State),
		IP: m.IP, Port: m.Port, Tags: m.Tags, CreatedAt: m.Created,
	}
}

// zoneOf reads the zone from a Ref. At a path that nothing is ever made at, nothing is.
func (p *Provider) zoneOf(op string, ref providers.Ref) (string, error) {
	if ref.Account != p.account {
		return "", &providers.Error{Class: providers.Permanent, Op: op, Code: providers.CodeWrongAccount, Err: fmt.Errorf("%s is not in account %s", ref, p.account)}
	}
	zone, name, _ := strings.Cut(ref.Path, "/")
	if !slices.Contains(p.zones, zone) || name == "" || url.PathEscape(name) != name {
		return "", providers.Gone(op, ref)
	}
	return zone, nil
}

// call sends one request and reads its answer into to.
func (p *Provider) call(ctx context.Context, op, method, path string, body []byte, to any) error {
	req, err := http.NewRequestWithContext(ctx, method, p.base+"/"+p.account+path, bytes.NewReader(body))
	if err != nil {
		return &providers.Error{Class: providers.Permanent, Op: op, Err: err}
	}
	unanswered := providers.Transient
	if method != http.MethodGet {
		unanswered = providers.Ambiguous
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return &providers.Error{Class: unanswered, Op: op, Err: err}
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return &providers.Error{Class: unanswered, Op: op, Err: err}
	}
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return &providers.Error{Class: providers.NotFound, Op: op}
	case resp.StatusCode == http.StatusTooManyRequests:
		after, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0, where there is none: the caller decides
		return &providers.Error{Class: providers.Throttled, Op: op, Code: "RateLimitExceeded", RetryAfter: time.Duration(after) * time.Second}
	case resp.StatusCode >= http.StatusInternalServerError:
		return &providers.Error{Class: unanswered, Op: op, Code: strconv.Itoa(resp.StatusCode)}
	case resp.StatusCode >= http.StatusBadRequest:
		return &providers.Error{Class: providers.Permanent, Op: op, Code: strconv.Itoa(resp.StatusCode)}
	case to == nil:
		return nil
	}
	if err := json.Unmarshal(text, to); err != nil {
		return &providers.Error{Class: unanswered, Op: op, Err: err}
	}
	return nil
}
