// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/proxy-operator/proxy-operator/providers"
)

// What pods and Secrets carry. The labels are what lists select by, and what people look for; the annotation is the record,
// and all that is believed.
const (
	labelManagedBy    = "app.kubernetes.io/managed-by"
	labelInstallation = "crawl.proxy-operator.io/installation"
	labelAccount      = "crawl.proxy-operator.io/account"
	labelOwnerUID     = "crawl.proxy-operator.io/owner-uid"
	labelProxy        = "crawl.proxy-operator.io/proxy"

	annotationRecord = "crawl.proxy-operator.io/record"
)

// record is what an instance is made from and carries.
type record struct {
	Account string `json:"account"`
	providers.Tags
}

// meta is the metadata of an instance's pod, and of its Secret.
func meta(account string, req providers.CreateRequest) metav1.ObjectMeta {
	raw, err := json.Marshal(record{account, req.Tags})
	if err != nil {
		raw = nil // strings and a number always marshal
	}
	all := map[string]string{}
	maps.Copy(all, req.Labels)
	maps.Copy(all, map[string]string{
		labelManagedBy: providers.ManagedBy, labelInstallation: req.Tags.Installation, labelAccount: account,
		labelOwnerUID: req.Tags.OwnerUID, labelProxy: req.Tags.Name,
	})
	return metav1.ObjectMeta{
		Namespace: req.Tags.Namespace, Name: req.Name, Labels: all, Annotations: map[string]string{annotationRecord: string(raw)},
	}
}

// selector picks by label what may be of this account. What it finds must still show its record.
func (p *Provider) selector(sel providers.Selector) string {
	set := labels.Set{labelManagedBy: providers.ManagedBy, labelInstallation: sel.Installation, labelAccount: p.account}
	if sel.OwnerUID != "" {
		set[labelOwnerUID] = sel.OwnerUID
	}
	return labels.SelectorFromSet(set).String()
}

// tagsOf returns the record of an object of this account. ok is false for what somebody else made, or changed: its name and
// namespace must be those that the record gives.
func (p *Provider) tagsOf(o metav1.Object) (tags providers.Tags, ok bool) {
	var r record
	if json.Unmarshal([]byte(o.GetAnnotations()[annotationRecord]), &r) != nil {
		return providers.Tags{}, false
	}
	key := providers.Key{InstallationID: r.Installation, ProxyUID: r.OwnerUID, Incarnation: r.Incarnation, Account: p.account}
	if r.Account != p.account || !r.Complete() || o.GetName() != key.Name() || o.GetNamespace() != r.Namespace {
		return providers.Tags{}, false
	}
	return r.Tags, true
}

// ref is the locator of the instance with that name.
func (p *Provider) ref(o metav1.Object) providers.Ref {
	return providers.Ref{Account: p.account, Path: o.GetNamespace() + "/" + o.GetName()}
}

// find takes a Ref apart.
func (p *Provider) find(op string, ref providers.Ref) (namespace, pod string, err error) {
	if ref.Account != p.account {
		return "", "", &providers.Error{
			Class: providers.Permanent, Op: op, Code: providers.CodeWrongAccount, Err: fmt.Errorf("%s is not in account %s", ref, p.account),
		}
	}
	namespace, pod, ok := strings.Cut(ref.Path, "/")
	if !ok || namespace == "" || strings.Contains(pod, "/") || !name.MatchString(pod) {
		return "", "", providers.Gone(op, ref) // no instance of ours has such a place
	}
	return namespace, pod, nil
}
