// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proxy-operator/proxy-operator/providers"
)

// list is what there is of the test's installation, by a process of its own.
func list(t *testing.T, p *Provider, owner string) []providers.Instance {
	t.Helper()
	all, err := p.ListByTag(t.Context(), providers.Selector{Installation: installation, OwnerUID: owner})
	require.NoError(t, err)
	return all
}

func secretOf(t *testing.T, req providers.CreateRequest) *corev1.Secret {
	t.Helper()
	s, err := cluster.admin.CoreV1().Secrets(req.Tags.Namespace).Get(t.Context(), req.Name, metav1.GetOptions{})
	require.NoError(t, err)
	return s
}

func podOf(t *testing.T, req providers.CreateRequest) *corev1.Pod {
	t.Helper()
	pod, err := cluster.admin.CoreV1().Pods(req.Tags.Namespace).Get(t.Context(), req.Name, metav1.GetOptions{})
	require.NoError(t, err)
	return pod
}

// withoutSecret makes an instance whose operator died after the pod.
func withoutSecret(t *testing.T, req providers.CreateRequest) providers.Ref {
	t.Helper()
	_, err := provider(t).api.createPod(t.Context(), buildPod(account, ownImage, req))
	require.NoError(t, err)
	t.Cleanup(func() { sweep(t, req.Tags.Namespace, req.Name) })
	return providers.Ref{Account: account, Path: req.Tags.Namespace + "/" + req.Name}
}

func TestTheSecretBelongsToThePodAndHoldsWhatTheMachineBootsWith(t *testing.T) {
	req := request(t, withAuth)
	create(t, provider(t), req)
	s := secretOf(t, req)
	require.Equal(t, podOf(t, req).UID, s.OwnerReferences[0].UID)
	require.True(t, *s.Immutable)
	require.Equal(t, map[string]string{
		"user-data": req.UserData, "meta-data": "instance-id: " + req.Name + "\nlocal-hostname: " + req.Name + "\n",
		"username": "crawler", "password": "hunter2-hunter2",
	}, func() map[string]string {
		text := map[string]string{}
		for k, v := range s.Data {
			text[k] = string(v)
		}
		return text
	}())
	for _, m := range []metav1.ObjectMeta{podOf(t, req).ObjectMeta, s.ObjectMeta} {
		require.NotContains(t, m.Annotations[annotationRecord], "hunter2")
	}
}

func TestARepeatMakesTheSecretThatACrashLeftOut(t *testing.T) {
	req, p := request(t), provider(t)
	ref := withoutSecret(t, req)
	i, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, ref, i.Ref)
	require.Equal(t, podOf(t, req).UID, secretOf(t, req).OwnerReferences[0].UID)
	awaitState(t, p, ref, providers.StateRunning)
}

// A new leader that sees the pod never sends its create again, so nobody makes the Secret.
func TestAPodThatNeverGetsItsSecretIsOverAfterAWhile(t *testing.T) {
	req := request(t)
	ref := withoutSecret(t, req)
	soon, late := provider(t), provider(t, later(halfMadeAfter+time.Second))
	require.Equal(t, providers.StateProvisioning, awaitState(t, soon, ref, providers.StateProvisioning).State, "its create may be under way")
	require.Equal(t, providers.StateProvisioning, list(t, soon, req.Tags.OwnerUID)[0].State)
	got := awaitState(t, late, ref, providers.StateTerminated)
	require.Equal(t, problemSecretMissing, got.Problem)
	require.Equal(t, got, list(t, late, req.Tags.OwnerUID)[0])
	require.NoError(t, late.Delete(t.Context(), ref))
	require.Eventually(t, func() bool { return len(list(t, soon, req.Tags.OwnerUID)) == 0 }, patience, glance)
}

func TestAPodThatWaitsForItsImageIsNotOver(t *testing.T) {
	req := request(t, labelled(treat, neverStarts))
	i := create(t, provider(t), req)
	late := provider(t, later(time.Hour))
	require.Equal(t, providers.StateProvisioning, awaitState(t, late, i.Ref, providers.StateProvisioning).State)
	require.Equal(t, providers.StateProvisioning, list(t, late, req.Tags.OwnerUID)[0].State)
}

// Somebody deleted the pod by force; the garbage collector hasn't come yet, or is off.
func TestWhatIsLeftOfAnInstanceIsListedUntilItIsDeleted(t *testing.T) {
	req, p := request(t), provider(t)
	i := create(t, p, req)
	require.NoError(t, cluster.admin.CoreV1().Pods(home).Delete(t.Context(), req.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	got := awaitState(t, p, i.Ref, providers.StateTerminated)
	require.Equal(t, req.Tags, got.Tags)
	require.True(t, got.Genuine())
	require.Equal(t, []providers.Instance{got}, list(t, p, req.Tags.OwnerUID))
	require.NoError(t, p.Delete(t.Context(), i.Ref), "asked")
	require.True(t, providers.Is(p.Delete(t.Context(), i.Ref), providers.NotFound), "done")
	require.Empty(t, list(t, p, req.Tags.OwnerUID))
}

func TestTheSecretOfAnEarlierPodIsNotTakenOver(t *testing.T) {
	req, p := request(t), provider(t)
	create(t, p, req)
	require.NoError(t, cluster.admin.CoreV1().Pods(home).Delete(t.Context(), req.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	old := secretOf(t, req).UID
	create(t, p, req)
	require.NotEqual(t, old, secretOf(t, req).UID, "the garbage collector is after the old one")
	require.Equal(t, podOf(t, req).UID, secretOf(t, req).OwnerReferences[0].UID)
}

func TestASecretOfSomebodyElseIsAConflictAndStays(t *testing.T) {
	req, p := request(t), provider(t)
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: req.Name}, StringData: map[string]string{"a": "b"}}
	_, err := cluster.admin.CoreV1().Secrets(home).Create(t.Context(), theirs, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { sweep(t, home, req.Name) })
	_, err = p.Create(t.Context(), req)
	require.Equal(t, providers.CodeNameConflict, failure(t, err).Code)
	require.Empty(t, list(t, p, req.Tags.OwnerUID), "the pod is taken back")
	ref := providers.Ref{Account: account, Path: home + "/" + req.Name}
	require.True(t, providers.Is(p.Delete(t.Context(), ref), providers.NotFound))
	require.Equal(t, "b", string(secretOf(t, req).Data["a"]))
}

// A person can copy our labels and our record; the name and the namespace don't fit them then.
func TestWhatOnlyLooksLikeOursIsNobodysInstance(t *testing.T) {
	req, p := request(t), provider(t)
	looks := map[string]func(*corev1.Pod){
		"labels alone":                func(pod *corev1.Pod) { pod.Annotations = nil },
		"a record under another name": func(pod *corev1.Pod) { pod.Name = requestOf("somebody").Name },
		"a record that isn't whole":   func(pod *corev1.Pod) { pod.Annotations[annotationRecord] = `{"account":"pods"}` },
		"a record that is no JSON":    func(pod *corev1.Pod) { pod.Annotations[annotationRecord] = `account: pods` },
		"a record of another account": func(pod *corev1.Pod) {
			pod.Annotations[annotationRecord] = strings.ReplaceAll(pod.Annotations[annotationRecord], `"pods"`, `"other"`)
		},
		"a record of another namespace": func(pod *corev1.Pod) {
			pod.Annotations[annotationRecord] = strings.ReplaceAll(pod.Annotations[annotationRecord], `"crawl"`, `"other"`)
		},
	}
	for name, change := range looks {
		t.Run(name, func(t *testing.T) {
			pod := buildPod(account, ownImage, req)
			change(pod)
			made, err := cluster.admin.CoreV1().Pods(home).Create(t.Context(), pod, metav1.CreateOptions{})
			require.NoError(t, err)
			t.Cleanup(func() { sweep(t, home, pod.Name) })
			require.Empty(t, list(t, p, req.Tags.OwnerUID))
			i, err := p.Get(t.Context(), p.ref(pod))
			require.NoError(t, err)
			require.False(t, i.Genuine())
			require.Zero(t, i.Tags)
			require.Equal(t, providers.CodeNameConflict, failure(t, p.Delete(t.Context(), p.ref(pod))).Code)
			if pod.Name == req.Name {
				_, err = p.Create(t.Context(), req)
				require.Equal(t, providers.CodeNameConflict, failure(t, err).Code)
			}
			now, err := cluster.admin.CoreV1().Pods(home).Get(t.Context(), pod.Name, metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, made.UID, now.UID)
			require.Nil(t, now.DeletionTimestamp)
		})
	}
}

// The Secret has the same record, and names the pod as its owner by a UID that nobody can choose.
func TestAPodWithoutItsRecordIsKnownByItsSecret(t *testing.T) {
	req, p := request(t), provider(t)
	i := create(t, p, req)
	awaitState(t, p, i.Ref, providers.StateRunning)
	_, err := cluster.admin.CoreV1().Pods(home).Patch(t.Context(), req.Name, types.MergePatchType, []byte(`{"metadata": {"annotations": null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	all := list(t, p, req.Tags.OwnerUID)
	require.Len(t, all, 1)
	require.Equal(t, providers.StateRunning, all[0].State)
	require.Equal(t, req.Tags, all[0].Tags)
	got, err := p.Get(t.Context(), i.Ref)
	require.NoError(t, err)
	require.Equal(t, all[0], got)
	again, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, all[0], again)
	require.Eventually(t, func() bool { // each step knows it still
		err := p.Delete(t.Context(), i.Ref)
		require.True(t, err == nil || providers.Is(err, providers.NotFound), "%v", err)
		return err != nil
	}, patience, glance)
	require.Empty(t, list(t, p, req.Tags.OwnerUID))
}

// A Secret of ours that is left of another pod says nothing of somebody's pod.
func TestAPodBesideASecretOfAnotherPodIsNobodysInstance(t *testing.T) {
	req, p := request(t), provider(t)
	i := create(t, p, req)
	require.NoError(t, cluster.admin.CoreV1().Pods(home).Delete(t.Context(), req.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	theirs := buildPod(account, ownImage, req)
	theirs.Annotations = nil
	_, err := cluster.admin.CoreV1().Pods(home).Create(t.Context(), theirs, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, providers.CodeNameConflict, failure(t, p.Delete(t.Context(), i.Ref)).Code)
	require.Nil(t, podOf(t, req).DeletionTimestamp)
}

func TestAPodThatAFinalizerHoldsSaysSo(t *testing.T) {
	var lines []string
	req, p := request(t), provider(t)
	i := create(t, p, req)
	awaitState(t, p, i.Ref, providers.StateRunning)
	patch := func(text string) {
		_, err := cluster.admin.CoreV1().Pods(home).Patch(t.Context(), req.Name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	patch(`{"metadata": {"finalizers": ["example.com/theirs"]}}`)
	require.NoError(t, p.Delete(t.Context(), i.Ref))
	got := awaitState(t, p, i.Ref, providers.StateDeleting)
	require.Equal(t, problemFinalizers, got.Problem)
	require.Equal(t, "the pod is held by finalizers: example.com/theirs", got.Detail)
	require.Empty(t, got.Overdue, "it is within its time")
	late := provider(t, later(forceAfter+grace*time.Second+time.Second), func(o *Options) {
		o.Log = funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	})
	require.NoError(t, late.Delete(t.Context(), i.Ref))
	shown := list(t, late, req.Tags.OwnerUID)[0].Overdue
	require.Contains(t, shown, "Pod "+i.Ref.Path+" should have been gone at ")
	require.Contains(t, shown, "; finalizers hold it: example.com/theirs. ")
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "example.com/theirs")
	require.NotContains(t, lines[0], "lost")
	patch(`{"metadata": {"finalizers": null}}`)
	require.Eventually(t, func() bool { return providers.Is(late.Delete(t.Context(), i.Ref), providers.NotFound) }, patience, glance)
}

func TestAPodWithoutItsLabelsIsStillFoundByItsPlace(t *testing.T) {
	req, p := request(t), provider(t)
	i := create(t, p, req)
	awaitState(t, p, i.Ref, providers.StateRunning)
	pod := podOf(t, req)
	pod.Labels = nil
	_, err := cluster.admin.CoreV1().Pods(home).Update(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	got, err := p.Get(t.Context(), i.Ref)
	require.NoError(t, err)
	require.True(t, got.Genuine())
	require.Equal(t, providers.StateRunning, got.State)
	again, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, i.Ref, again.Ref)
}

func TestAPodOnALostNodeIsRemovedInTheEnd(t *testing.T) {
	req, p := request(t, labelled(treat, losesItsNode)), provider(t)
	i := create(t, p, req)
	awaitState(t, p, i.Ref, providers.StateRunning)
	require.NoError(t, p.Delete(t.Context(), i.Ref))
	awaitState(t, p, i.Ref, providers.StateDeleting)
	early := provider(t, later(forceAfter-time.Minute))
	require.NoError(t, early.Delete(t.Context(), i.Ref))
	require.Equal(t, providers.StateDeleting, list(t, p, req.Tags.OwnerUID)[0].State, "its node may be slow")
	require.Contains(t, list(t, early, req.Tags.OwnerUID)[0].Overdue, "; its node, node-1, doesn't answer.")
	late := provider(t, later(forceAfter+grace*time.Second+time.Second))
	require.NoError(t, late.Delete(t.Context(), i.Ref))
	require.True(t, providers.Is(late.Delete(t.Context(), i.Ref), providers.NotFound))
	require.Empty(t, list(t, p, req.Tags.OwnerUID))
}

func TestADeleteDoesNotTakeAPodThatGotTheNameMeanwhile(t *testing.T) {
	req, d := request(t), &door{}
	p := provider(t, d.into)
	create(t, p, req)
	old := podOf(t, req)
	sweep(t, home, req.Name)
	create(t, p, req)
	err := p.api.remove(t.Context(), pods, old, false)
	require.Equal(t, providers.Transient, classed(opDelete, err, true).Class, "%v", err)
	require.Nil(t, podOf(t, req).DeletionTimestamp)
}

func TestAnIPv6Address(t *testing.T) {
	req, p := request(t, labelled(treat, hasIPv6)), provider(t)
	i := create(t, p, req)
	require.Equal(t, "2001:db8::1", awaitState(t, p, i.Ref, providers.StateRunning).IP)
}

// etcd forgets old states after minutes; the next page of a list is then gone.
func TestAListWhoseNextPageIsGoneBeginsAnew(t *testing.T) {
	d := &door{}
	p := provider(t, d.into)
	p.pageSize = 2
	owner, first := request(t).Tags.OwnerUID, "z"
	for n := range 5 {
		req := request(t)
		req.Key.Incarnation, req.Tags.Incarnation = int64(n+1), int64(n+1)
		req.Name = req.Key.Name()
		create(t, p, req)
		first = min(first, req.Name)
	}
	gone := status(410, "Expired", "The provided continue parameter is too old")
	d.answerPage(2, http.StatusGone, gone)
	const secondPage = 8 // after three pages of Secrets and one of pods, each of which is two steps
	d.interrupt(secondPage, func() { sweep(t, home, first) })
	all := list(t, p, owner)
	require.True(t, d.interrupted())
	require.Len(t, all, 5)
	for _, i := range all {
		require.Equal(t, i.Name == first, i.State == providers.StateTerminated, "what the forgotten page showed doesn't count: %+v", i)
	}
	for range listTries {
		d.answerPage(1, http.StatusGone, gone)
	}
	_, err := p.ListByTag(t.Context(), providers.Selector{Installation: installation})
	require.Error(t, err, "for ever is too long")
}

func TestOnlyWatchedNamespacesAreListed(t *testing.T) {
	one, other := namespace(t, nil), namespace(t, nil)
	everywhere := provider(t)
	a, b := request(t, in(one)), requestOf(t.Name()+"b", in(other))
	create(t, everywhere, a)
	create(t, everywhere, b)
	chosen := provider(t, func(o *Options) { o.Namespaces = []string{one, home} })
	require.Len(t, list(t, chosen, a.Tags.OwnerUID), 1)
	require.Empty(t, list(t, chosen, b.Tags.OwnerUID))
	require.Len(t, list(t, everywhere, b.Tags.OwnerUID), 1)
}

// What was sent must not take effect after its deadline, so the API server is told of it.
func TestTheAPIServerIsToldOfTheDeadline(t *testing.T) {
	d := &door{}
	p := provider(t, d.into)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req := request(t)
	_, err := p.Create(ctx, req)
	require.NoError(t, err)
	t.Cleanup(func() { sweep(t, home, req.Name) })
	for _, q := range d.timeouts() {
		left, err := time.ParseDuration(q)
		require.NoError(t, err)
		require.InDelta(t, 20, left.Seconds(), 5)
	}
	require.Len(t, d.timeouts(), 2)
}
