// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/json"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/providers"
)

type metadata map[string]any

// editedPatch changes the metadata of a patch.
type editedPatch struct {
	client.Patch
	edit func(metadata)
}

// Data implements client.Patch.
func (e editedPatch) Data(o client.Object) ([]byte, error) {
	data, err := e.Patch.Data(o)
	if err != nil {
		return nil, err
	}
	var patch map[string]any
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	if m, ok := patch["metadata"].(map[string]any); ok {
		e.edit(m)
	}
	return json.Marshal(patch)
}

// blindLists show nothing.
type blindLists struct{ providers.Provider }

func (b blindLists) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	_, err := b.Provider.ListByTag(ctx, sel)
	return nil, err
}

func (b blindLists) Check(req providers.CreateRequest) error { return checked(b.Provider, req) }

// emptyLists show nothing where they fail (kubernetes-sigs/external-dns#2858).
type emptyLists struct{ providers.Provider }

func (e emptyLists) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	list, err := e.Provider.ListByTag(ctx, sel)
	if err != nil {
		return nil, nil //nolint:nilerr // this is the bug
	}
	return list, nil
}

func (e emptyLists) Get(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
	i, err := e.Provider.Get(ctx, ref)
	if err != nil {
		return i, providers.Gone("get instance", ref)
	}
	return i, nil
}

func (e emptyLists) Check(req providers.CreateRequest) error { return checked(e.Provider, req) }

// oneKey keys every create of a Proxy alike.
type oneKey struct{ providers.Provider }

func (k oneKey) Create(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	req.Key.Incarnation = 1
	req.Name = req.Key.Name()
	return k.Provider.Create(ctx, req)
}

func (k oneKey) Check(req providers.CreateRequest) error { return checked(k.Provider, req) }

// reclassed takes one class of error for another.
type reclassed struct {
	providers.Provider
	from, to providers.ErrorClass
}

func (r reclassed) Create(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	i, err := r.Provider.Create(ctx, req)
	if providers.MutationClass(err) == r.from {
		err = &providers.Error{Class: r.to, Op: "create instance", Err: err}
	}
	return i, err
}

func (r reclassed) Check(req providers.CreateRequest) error { return checked(r.Provider, req) }

// deleteNever404 fails where there is nothing to delete (kubernetes-sigs/cluster-api-provider-gcp#1647).
type deleteNever404 struct{ providers.Provider }

func (d deleteNever404) Delete(ctx context.Context, ref providers.Ref) error {
	err := d.Provider.Delete(ctx, ref)
	if providers.Is(err, providers.NotFound) {
		return &providers.Error{Class: providers.Transient, Op: "delete instance", Err: err}
	}
	return err
}

func (d deleteNever404) Check(req providers.CreateRequest) error { return checked(d.Provider, req) }

// hasty takes a machine that boots for one that runs.
type hasty struct{ providers.Provider }

func (h hasty) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	list, err := h.Provider.ListByTag(ctx, sel)
	for n := range list {
		if list[n].State == providers.StateProvisioning {
			list[n].State = providers.StateRunning
		}
	}
	return list, err
}

func (h hasty) Check(req providers.CreateRequest) error { return checked(h.Provider, req) }

// talkative puts the vendor's words, request id and all, where status shows them (crossplane-contrib/provider-aws#69).
type talkative struct{ providers.Provider }

func (t talkative) Create(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	i, err := t.Provider.Create(ctx, req)
	if err != nil {
		err = &providers.Error{Class: providers.MutationClass(err), Op: "create instance", Code: err.Error(), Err: err}
	}
	return i, err
}

func (t talkative) Check(req providers.CreateRequest) error { return checked(t.Provider, req) }
