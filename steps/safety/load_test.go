package safety

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"addon-operator/internal/kube"
	"addon-operator/internal/module"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

func TestThePermissionOfAPersonIsThatOfTheStoreAndIsUsedOnce(t *testing.T) {
	t.Parallel()
	given := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		record    *store.AppliedConfig
		later     bool // a person gives another permission during the discovery
		want      bool // the expected value of Permission.Configured
		wantHooks bool // the expected value of Permission.OnlyHooks
	}{
		"before the ConfigMap is read": {nil, false, false, false},
		"without a ConfigMap":          {&store.AppliedConfig{Config: []byte("{}"), At: given}, false, false, false},
		"with a ConfigMap":             {&store.AppliedConfig{ResourceVersion: "1", Config: []byte("{}"), At: given}, false, true, false},
		"with a ConfigMap of hooks":    {&store.AppliedConfig{ResourceVersion: "1", OnlyHooks: true, Config: []byte("{}"), At: given}, false, false, true},
		"another permission meanwhile": {&store.AppliedConfig{ResourceVersion: "1", Config: []byte("{}"), At: given}, true, true, false},
	} {
		db := storetest.Memory(t)
		if err := db.Update(func(tx *store.Tx) error {
			if c.record != nil {
				if err := store.Save(tx, store.AppliedConfigKey(), *c.record); err != nil {
					return err
				}
			}
			if err := store.Save(tx, store.AllowedPurgeKey(), store.AllowedPurge{Releases: 3, By: "ann", At: given}); err != nil {
				return err
			}
			p, err := Load(tx)
			if err != nil {
				return err
			}
			want := Permission{Allowed: store.AllowedPurge{Releases: 3, By: "ann", At: given}, Configured: c.want, OnlyHooks: c.wantHooks}
			if diff := cmp.Diff(want, p); diff != "" {
				t.Errorf("%s: permission (-want +got):\n%s", name, diff)
			}
			if c.later {
				if err := store.Save(tx, store.AllowedPurgeKey(), store.AllowedPurge{Releases: 9, At: given.Add(time.Second)}); err != nil {
					return err
				}
			}
			if err := SaveBlocked(tx, nil, p.Allowed.At); err != nil {
				return err
			}
			left, kept, err := store.Load[store.AllowedPurge](tx, store.AllowedPurgeKey())
			if kept != c.later || c.later && left.Releases != 9 {
				t.Errorf("%s: after the discovery, the permission is %+v, kept: %t", name, left, kept)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReleasesWithoutAModuleArePurgedExceptTheOperatorsOwn(t *testing.T) {
	t.Parallel()
	releases := releasesNamed("broken", "old", "own", "web")
	set := module.Set{Modules: []module.Module{{Name: "web"}, {Name: "broken", Broken: errors.New("bad")}}}
	for own, want := range map[string][]string{"own": {"old"}, "": {"old", "own"}, "other": {"old", "own"}} {
		d := newChecks(Options{IgnoreRelease: own}, &blocked{}).Discovery(releases, Permission{})
		if err := d.FindUnknown(t.Context(), set, releases); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, d.Unknown); diff != "" || len(d.Blocked) > 0 {
			t.Errorf("own release %q: problems %+v, releases to purge (-want +got):\n%s", own, d.Blocked, diff)
		}
		if !d.Released("web") || d.Released("none") {
			t.Errorf("web is released: %t, none: %t", d.Released("web"), d.Released("none"))
		}
	}
}

// With hostNetwork, the host name is the name of the node, and no pod has this name.
func TestNoReleaseIsPurgedIfTheOwnOneIsNotKnown(t *testing.T) {
	t.Parallel()
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "node-1", errors.New("no rule"))
	for name, c := range map[string]struct {
		options Options
		own     string
		exists  bool
		err     error
		purge   []string
		why     string // the end of the reason for which the releases are kept
	}{
		"its pod has a release":                       {Options{InPod: true}, "own", true, nil, []string{"old"}, ""},
		"its pod has no release":                      {Options{InPod: true}, "", true, nil, []string{"old", "own"}, ""},
		"it runs in a pod with another name":          {Options{InPod: true}, "", false, nil, nil, "namespace ops has no pod node-1: old, own"},
		"it runs outside of the cluster":              {Options{}, "", false, nil, []string{"old", "own"}, ""},
		"the options name another release":            {Options{InPod: true, IgnoreRelease: "mine"}, "", false, nil, []string{"old", "own"}, ""},
		"it may not read its pod":                     {Options{InPod: true}, "", false, refused, nil, "is forbidden: no rule: old, own"},
		"it may not read a pod with its host name":    {Options{}, "", false, refused, nil, "is forbidden: no rule: old, own"},
		"it may not read its pod, a release is named": {Options{IgnoreRelease: "mine"}, "", false, refused, []string{"old", "own"}, ""},
	} {
		c.options.Namespace, c.options.PodNamespace, c.options.Pod = "addons", "ops", "node-1"
		d := newChecks(c.options, &blocked{}).Discovery(releasesNamed("old", "own", "web"), Permission{})
		if err := d.leaveOutOwn([]string{"old", "own"}, c.own, c.exists, c.err); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.purge, d.Unknown); diff != "" {
			t.Errorf("%s: releases to purge (-want +got):\n%s", name, diff)
		}
		if kept := len(d.Blocked) == 1; kept != (c.why != "") || kept && !strings.HasSuffix(d.Blocked[0].Error, c.why) {
			t.Errorf("%s: problems %+v, want the reason %q", name, d.Blocked, c.why)
		}
	}
	d := newChecks(Options{}, &blocked{}).Discovery(nil, Permission{})
	if err := d.leaveOutOwn([]string{"old"}, "", false, io.EOF); !errors.Is(err, io.EOF) || d.Unknown != nil || d.Blocked != nil {
		t.Errorf("without a response: %v, releases to purge %q, problems %+v", err, d.Unknown, d.Blocked)
	}
}

// podServer returns an API server that has only the pod op-0 in the namespace ops, with these annotations.
func podServer(t *testing.T, annotations map[string]string) *httptest.Server {
	t.Helper()
	answers := map[string]any{
		"/api":  metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}},
		"/api/v1": metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: "v1",
			APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true}},
		},
		"/api/v1/namespaces/ops/pods/op-0": metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "op-0", Namespace: "ops", Annotations: annotations},
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, r.URL.Path).Status()
		w.Header().Set("Content-Type", "application/json")
		if known, ok := answers[r.URL.Path]; ok {
			answer = known
		} else {
			w.WriteHeader(http.StatusNotFound)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestTheOwnPodIsFoundInAnotherNamespaceThanTheReleases(t *testing.T) {
	t.Parallel()
	for namespace, want := range map[string][]string{"ops": {"old", "own"}, "addons": {"old"}} { // of the release of the pod
		server := podServer(t, map[string]string{"meta.helm.sh/release-name": "own", "meta.helm.sh/release-namespace": namespace})
		client, err := kube.NewClient(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		releases := releasesNamed("old", "own", "web")
		o := Options{Kube: client, Namespace: "addons", Pod: "op-0", PodNamespace: "ops", InPod: true}
		d := newChecks(o, &blocked{}).Discovery(releases, Permission{})
		if err := d.FindUnknown(t.Context(), module.Set{Modules: []module.Module{{Name: "web"}}}, releases); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, d.Unknown); diff != "" || len(d.Blocked) > 0 {
			t.Errorf("release in namespace %s: problems %+v, releases to purge (-want +got):\n%s", namespace, d.Blocked, diff)
		}
	}
}

func TestABlockedDeletionSaysHowToKeepTheReleasesAndHowToDeleteThem(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		permission Permission
		fix        string
	}{
		"deleted because there is no ConfigMap a/b":             {Permission{}, "create the ConfigMap"},
		"deleted because only hooks have written ConfigMap a/b": {Permission{OnlyHooks: true}, "write your settings to the ConfigMap"},
	} {
		var observed blocked
		d := newChecks(Options{}, &observed).Discovery(releasesNamed("a", "b", "c"), c.permission)
		if got := d.Delete([]string{"c", "b", "idle"}, 2); len(got) > 0 {
			t.Errorf("deleted %q", got)
		}
		want := []store.Problem{{
			Kind: store.BlockedDeletion, Object: what,
			Error: "2 of 3 releases would be " + what + ", so the safety check keeps them: c, b, idle",
			Fix:   c.fix, Command: []string{"reload", "--allow-purge=2"}, Effect: "uninstalls the releases, with all their objects",
		}}
		if diff := cmp.Diff(want, d.Blocked); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
		if got := strings.Join(observed.releases, " "); got != "c b idle" {
			t.Errorf("reported releases: %s", got)
		}
	}
	for most, want := range map[int]int{1: 0, 2: 2} { // the options, or a person, allow this number of deletions
		for _, o := range []struct {
			options    Options
			permission Permission
		}{{Options{AllowPurge: most}, Permission{}}, {Options{}, Permission{Allowed: store.AllowedPurge{Releases: most}}}} {
			d := newChecks(o.options, &blocked{}).Discovery(releasesNamed("a", "b", "c"), o.permission)
			if got := d.Purge([]string{"a", "b"}); len(got) != want {
				t.Errorf("%+v: %q may be purged, want %d releases", o, got, want)
			}
		}
	}
}
