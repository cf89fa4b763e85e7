package api_test

import (
	"encoding/json"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/internal/api"
)

func TestAnIdentityIsReadFromItsText(t *testing.T) {
	t.Parallel()
	for text, test := range map[string]struct {
		want     api.Identity
		kind     string
		resource string
	}{
		"redis":      {api.Identity{Name: "redis"}, "ClusterAddonsConfiguration", "clusteraddonsconfigurations"},
		"shop/redis": {api.Identity{Namespace: "shop", Name: "redis"}, "AddonsConfiguration", "addonsconfigurations"},
	} {
		got := api.ParseIdentity(text)
		if got != test.want || got.String() != text {
			t.Errorf("%s is read as %#v and written as %s", text, got, got)
		}
		if got.Kind() != test.kind || got.Resource().Resource != test.resource {
			t.Errorf("%s is a %s, one of %s", text, got.Kind(), got.Resource().Resource)
		}
		if r := got.Resource(); r.Group != "addons.kyma-project.io" || r.Version != "v1alpha1" {
			t.Errorf("%s is of %s", text, r.GroupVersion())
		}
	}
}

func TestOnlyTheTextTrueMarksAConfigurationForModules(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"true": true, "false": false, "": false, "True": false, "1": false} {
		c := api.Configuration{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"addons.kyma-project.io/modules": value}}}
		if got := c.IsMarkedForModules(); got != want {
			t.Errorf("%q: got %t, want %t", value, got, want)
		}
	}
	if (&api.Configuration{}).IsMarkedForModules() {
		t.Error("a configuration without annotations is marked")
	}
}

// Clients read the list of addons without checking that it exists, so the JSON must have the list
// even if it is empty.
func TestTheStatusOfARepositoryAlwaysHasItsAddons(t *testing.T) {
	t.Parallel()
	for want, status := range map[string]api.RepositoryStatus{
		`{"url":"u","status":"Failed","reason":"EmptyURLError","message":"m","addons":[]}`:                          {URL: "u", Status: api.ConditionFailed, Reason: api.EmptyURLError, Message: "m", Addons: []api.AddonStatus{}},
		`{"url":"u","status":"Ready","addons":[{"name":"redis","version":"1.0.0","status":"Ready"}]}`:               {URL: "u", Status: api.ConditionReady, Addons: []api.AddonStatus{{Name: "redis", Version: "1.0.0", Status: api.ConditionReady}}},
		`{"url":"u","addons":[{"name":"a","version":"1","status":"Failed","reason":"LoadingError","message":"m"}]}`: {URL: "u", Addons: []api.AddonStatus{{Name: "a", Version: "1", Status: api.ConditionFailed, Reason: api.LoadingError, Message: "m"}}},
	} {
		got, err := json.Marshal(status)
		if err != nil || string(got) != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	}
}

func TestMessagesOfOtherReasonsAreTheErrors(t *testing.T) {
	t.Parallel()
	err := errors.New("a: b: c: d: e: f")
	for _, reason := range []api.Reason{api.EmptyURLError, api.ConflictInSpecifiedRepositories, api.ConflictWithAlreadyRegisteredAddon, "", "Other"} {
		if got := reason.Message(err); got != err.Error() {
			t.Errorf("%s: got %s", reason, got)
		}
	}
	if got, want := api.FetchingError.Message(errors.New("a: b")), "Fetching failed due to error: 'a: b'"; got != want {
		t.Errorf("a short error: got %s, want %s", got, want)
	}
	if got, want := api.ImageConflictMessage("redis", "/modules/010-redis"), "An addon with the same ID is already registered: [ConfigurationName: modules-dir, url: /modules/010-redis, addons: redis]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
