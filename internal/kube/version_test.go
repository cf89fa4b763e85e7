package kube

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
)

func TestVersionsThatCannotBeComparedAreDeliveredAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b                  string
		after, ahead, reached bool // a may be later than b; a is later than b; a server at b has reached a
	}{
		{a: "10", b: "9", after: true, ahead: true},
		{a: "9", b: "10", reached: true},
		{a: "10", b: "10", reached: true},
		{a: "99999999999999999999999999", b: "1", after: true, ahead: true},
		{a: "1", b: "99999999999999999999999999", reached: true},
		{a: "x", b: "1", after: true},
		{a: "x", b: "x", after: true},
		{a: "1", b: "x", after: true},
		{a: "", b: "1", after: true},
		{a: "1", b: "", after: true},
		{a: "-1", b: "1", after: true},
	} {
		if got := After(test.a, test.b); got != test.after {
			t.Errorf("%q is later than %q: %t, want %t", test.a, test.b, got, test.after)
		}
		if got := isAhead(test.a, test.b); got != test.ahead {
			t.Errorf("it is known that %q is later than %q: %t, want %t", test.a, test.b, got, test.ahead)
		}
		if got := isReached(test.a, test.b); got != test.reached {
			t.Errorf("a server at %q has reached %q: %t, want %t", test.b, test.a, got, test.reached)
		}
	}
}

func TestTheLaterOfTwoVersionsIsNeverEarlierThanOneOfThem(t *testing.T) {
	t.Parallel()
	for _, test := range [][3]string{{"", "", ""}, {"", "5", "5"}, {"5", "", "5"}, {"9", "10", "10"}, {"10", "9", "10"}, {"7", "7", "7"}} {
		if got := later(test[0], test[1]); got != test[2] {
			t.Errorf("of %q and %q, %q is later, want %q", test[0], test[1], got, test[2])
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.StringMatching(`[1-9][0-9]{0,25}`)
		a, b := version.Draw(t, "a"), version.Draw(t, "b")
		got := later(a, b)
		if got != later(b, a) || After(a, got) || After(b, got) {
			t.Fatalf("of %s and %s, %s is later", a, b, got)
		}
	})
}

func TestAReferenceNamesItsObject(t *testing.T) {
	t.Parallel()
	for want, ref := range map[string]Ref{
		"Pod.v1 shop/web":         {"v1", "Pod", "shop", "web"},
		"Node.v1 n1":              {"v1", "Node", "", "n1"},
		"Deployment.apps/v1 a/b.": {"apps/v1", "Deployment", "a", "b."},
	} {
		if got := ref.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestTheSourceOfAReferenceHasItsNamespace(t *testing.T) {
	t.Parallel()
	pods := Kind{schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "pods", true}
	nodes := Kind{schema.GroupVersionKind{Version: "v1", Kind: "Node"}, "nodes", false}
	unknown := errors.New("unknown")
	for name, test := range map[string]struct {
		kind Kind
		err  error
		ref  Ref
		want string
		fail string
	}{
		"namespaced":             {pods, nil, Ref{"v1", "Pod", "shop", "web"}, "v1/pods?namespace=shop", ""},
		"without namespaces":     {nodes, nil, Ref{"v1", "Node", "", "n1"}, "v1/nodes", ""},
		"namespace of no use":    {nodes, nil, Ref{"v1", "Node", "shop", "n1"}, "v1/nodes", ""},
		"missing namespace":      {pods, nil, Ref{"v1", "Pod", "", "web"}, "", "find Pod.v1 web: its kind is namespaced, but no namespace is given"},
		"kind that is not found": {Kind{}, unknown, Ref{"v1", "Thing", "shop", "web"}, "", "find Thing.v1 shop/web: unknown"},
	} {
		source, err := sourceOf(t.Context(), func(_ context.Context, apiVersion, kind string) (Kind, error) {
			if apiVersion != test.ref.APIVersion || kind != test.ref.Kind {
				t.Errorf("%s: asked for %s of %s", name, kind, apiVersion)
			}
			return test.kind, test.err
		}, test.ref)
		switch {
		case test.fail != "":
			if err == nil || err.Error() != test.fail {
				t.Errorf("%s: got %v, want %s", name, err, test.fail)
			}
		case err != nil || source.String() != test.want:
			t.Errorf("%s: got %s, %v, want %s", name, source, err, test.want)
		}
	}
}

func TestTheReleaseOfAnObjectIsInItsAnnotations(t *testing.T) {
	t.Parallel()
	name, namespace := ReleaseIn(map[string]string{"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop", "other": "x"})
	if name != "web" || namespace != "shop" {
		t.Errorf("got %s/%s", namespace, name)
	}
	if name, namespace := ReleaseIn(nil); name != "" || namespace != "" {
		t.Errorf("an object without annotations is of release %s/%s", namespace, name)
	}
}
