package kube

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestSelectionsComeDownToSources(t *testing.T) {
	t.Parallel()
	deployments := Kind{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, "deployments", true}
	nodes := Kind{schema.GroupVersionKind{Version: "v1", Kind: "Node"}, "nodes", false}
	many := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
	for name, test := range map[string]struct {
		selection Selection
		kind      Kind
		want      []string
	}{
		"all": {Selection{}, deployments, []string{"apps/v1/deployments"}},
		"namespaces, each once": {
			Selection{Namespaces: []string{"b", "a", "b"}},
			deployments,
			[]string{"apps/v1/deployments?namespace=a", "apps/v1/deployments?namespace=b"},
		},
		"names": {
			Selection{Names: []string{"y", "x"}, Namespaces: []string{"a"}},
			deployments,
			[]string{"apps/v1/deployments?names=x&namespace=a", "apps/v1/deployments?names=y&namespace=a"},
		},
		"many names": {
			Selection{Names: many, Namespaces: []string{"a"}},
			deployments,
			[]string{"apps/v1/deployments?names=a%2Cb%2Cc%2Cd%2Ce%2Cf%2Cg%2Ch%2Ci&namespace=a"},
		},
		"a kind without namespaces": {Selection{Namespaces: []string{"a"}, Names: []string{"x"}}, nodes, []string{"v1/nodes?names=x"}},
		"labels and fields": {
			Selection{
				Labels: &metav1.LabelSelector{
					MatchLabels:      map[string]string{"b": "2", "a": "1"},
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "c", Operator: metav1.LabelSelectorOpIn, Values: []string{"y", "x"}}},
				},
				Fields: []FieldMatch{{"status.phase", "NotEquals", "Failed"}, {"spec.nodeName", "==", "n"}, {"metadata.name", "=", "x,y"}},
			},
			deployments,
			[]string{`apps/v1/deployments?fields=metadata.name%3Dx%5C%2Cy%2Cspec.nodeName%3Dn%2Cstatus.phase%21%3DFailed&labels=a%3D1%2Cb%3D2%2Cc+in+%28x%2Cy%29`},
		},
		"empty label selector": {Selection{Labels: &metav1.LabelSelector{}}, deployments, []string{"apps/v1/deployments"}},
	} {
		test.selection.Kind = "any"
		p, err := test.selection.plan()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, source := range p.sources(test.kind, p.namespaces) {
			got = append(got, source.String())
			source.Kind = ""
			if parsed, err := ParseSource(source.String()); parsed != source || err != nil {
				t.Errorf("%s: %s is parsed as %+v (%v)", name, source, parsed, err)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestTextsThatAreNoSourceAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a/b/c/pods", "v1/pods?labels=%zz"} {
		if source, err := ParseSource(text); err == nil {
			t.Errorf("%q is parsed as %+v", text, source)
		}
	}
}

func TestSelectionsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	for want, selection := range map[string]Selection{
		"kind is missing":        {},
		"apiVersion":             {Kind: "Pod", APIVersion: "a/b/c"},
		"cannot be a name":       {Kind: "Pod", Names: []string{"a,b"}},
		`"" cannot be a name`:    {Kind: "Pod", Namespaces: []string{""}},
		"labels":                 {Kind: "Pod", Labels: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}}},
		"labels of namespaces":   {Kind: "Pod", NamespaceLabels: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}},
		`operator "~"`:           {Kind: "Pod", Fields: []FieldMatch{{"a", "~", ""}}},
		"has no field":           {Kind: "Pod", Fields: []FieldMatch{{"", "=", "a"}}},
		"both names and a field": {Kind: "Pod", Names: []string{"a"}, Fields: []FieldMatch{{"metadata.name", "=", "a"}}},
	} {
		if _, err := selection.plan(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestASingleNameIsAskedForAndSeveralArePickedOut(t *testing.T) {
	t.Parallel()
	one := Source{Version: "v1", Resource: "pods", Namespace: "a", Names: "x", Fields: "spec.nodeName=n"}
	if got := one.fieldSelector(); got != "metadata.name=x,spec.nodeName=n" {
		t.Errorf("one name: %s", got)
	}
	several := Source{Group: "apps", Version: "v1", Resource: "deployments", Names: "x,y"}
	if got, picks := several.fieldSelector(), several.picker(); got != "" || !picks("x") || picks("z") {
		t.Errorf("several names: %q, %v, %v", got, picks("x"), picks("z"))
	}
	if got := one.path(); got != "/api/v1/namespaces/a/pods" {
		t.Errorf("path %s", got)
	}
	if got := several.path(); got != "/apis/apps/v1/deployments" {
		t.Errorf("path %s", got)
	}
	if got := (View{several, ".a & .b"}).String(); got != "apps/v1/deployments?filter=.a+%26+.b&names=x%2Cy" {
		t.Errorf("view %s", got)
	}
}
