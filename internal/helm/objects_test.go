package helm

import (
	"bytes"
	"io"
	"log"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
)

func label(t *testing.T, labels map[string]string, text string) (string, []document) {
	t.Helper()
	got, sum, documents := labelled(t, labels, text)
	if got != sum {
		t.Errorf("the checksum is made of\n%s\nnot of\n%s", sum, got)
	}
	return got, documents
}

func labelled(t *testing.T, labels map[string]string, text string) (got, sum string, documents []document) {
	t.Helper()
	l := &labeller{labels: labels}
	out, err := l.Run(bytes.NewBufferString(text))
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), l.sum, l.documents
}

// TestLabelledTextHasTheFormChecksumsWereMadeOf checks the text over which checksums are computed. If it changed, the
// stored checksums of existing releases would not match.
func TestLabelledTextHasTheFormChecksumsWereMadeOf(t *testing.T) {
	t.Parallel()
	given := `---
# Source: web/templates/a.yaml
apiVersion: v1
kind: ConfigMap
metadata:
  name: "a" # quotes stay
  labels: {team: 7, heritage: other}
data:
    wide:    |
      on: off

      two
    list: [1, "2"]
---
# Source: web/templates/b.yaml
kind: Service
apiVersion: v1
metadata:
  name: b
spec:
  ports:
    - port: 80
`
	want := `# Source: web/templates/a.yaml
apiVersion: v1
kind: ConfigMap
metadata:
  name: "a" # quotes stay
  labels:
    heritage: addon-operator
    team: "7"
data:
  wide: |
    on: off

    two
  list: [1, "2"]
---
# Source: web/templates/b.yaml
kind: Service
apiVersion: v1
metadata:
  name: b
  labels:
    heritage: addon-operator
spec:
  ports:
  - port: 80
`
	got, documents := label(t, map[string]string{"heritage": "addon-operator"}, given)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(documents) != 2 || documents[1].template() != "web/templates/b.yaml" || documents[1].String() != "Service b" {
		t.Errorf("documents are %v", documents)
	}
}

func TestItemsOfListsAreLabelledAndListed(t *testing.T) {
	t.Parallel()
	got, sum, documents := labelled(t, map[string]string{"l": "x"}, `apiVersion: v1
kind: ConfigMap
metadata: {name: first}
---
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: second, namespace: n}
---
apiVersion: v1
kind: ConfigMapList
items:
- metadata: {name: third}
`)
	if n := strings.Count(got, "l: x"); n != 5 {
		t.Errorf("%d labels, want one on each of 3 objects and 2 lists:\n%s", n, got)
	}
	if n := strings.Count(sum, "l: x"); n != 3 {
		t.Errorf("%d labels in the text of the checksum, want one on each document:\n%s", n, sum)
	}
	var objects []Object
	for _, d := range documents {
		objects = append(objects, d.Object)
	}
	want := []Object{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "first"},
		{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "n", Name: "second"},
		{APIVersion: "v1", Kind: "ConfigMap", Name: "third"},
	}
	if diff := cmp.Diff(want, objects); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNothingRenderedIsNothing(t *testing.T) {
	t.Parallel()
	if got, documents := label(t, map[string]string{"l": "x"}, "\n---\n# only a comment\n"); got != "" || len(documents) > 0 {
		t.Errorf("got %q and %v", got, documents)
	}
}

func TestManifestIsExtendedByTheObjectsThatItLacks(t *testing.T) {
	t.Parallel()
	const a, b, c = "apiVersion: v1\nkind: A\nmetadata: {name: a}\nspec: 1\n", "apiVersion: v1\nkind: B\nmetadata: {name: b}\n", "apiVersion: g/v2\nkind: C\nmetadata: {name: c}\n"
	const listed = "apiVersion: v1\nkind: BList\nitems:\n- metadata: {name: b}\n- apiVersion: g/v3\n  kind: C\n  metadata: {name: c}\n"
	m := manifests{namespace: "n"}
	for name, other := range map[string]string{
		"objects":               b + "---\n" + strings.Replace(a, "1\n", "2\n", 1) + "---\n" + strings.Replace(c, "v2", "v1", 1),
		"items of a list":       listed,
		"the default namespace": b + "---\n" + strings.Replace(a, "name: a", "name: a, namespace: n", 1),
	} {
		known, err := m.names(a + "---\n" + c)
		if err != nil {
			t.Fatal(err)
		}
		more, err := m.lacking(known, &release.Release{Manifest: other})
		if err != nil {
			t.Fatal(err)
		}
		got, err := with(a+"---\n"+c, more)
		if err != nil {
			t.Fatal(err)
		}
		if _, added, _ := strings.Cut(got, gathered); named(more[0]) != (Object{APIVersion: "v1", Kind: "B", Name: "b"}) || len(more) != 1 || strings.Count(added, "name: b") != 1 {
			t.Errorf("%s: %d added:\n%s", name, len(more), got)
		}
		if own := withoutGathered(got); own != a+"---\n"+c {
			t.Errorf("%s: without the added objects, the manifest is\n%s", name, own)
		}
	}
}

// rendered returns text, the output of a template, in the form in which Helm passes it to a post-renderer. rendered
// returns false if Helm rejects the text.
func rendered(text string) (string, bool) {
	_, manifests, err := releaseutil.SortManifests(map[string]string{"chart/templates/f.yaml": text}, nil, releaseutil.InstallOrder)
	var out strings.Builder
	for _, m := range manifests {
		out.WriteString("---\n# Source: " + m.Name + "\n" + m.Content + "\n")
	}
	return out.String(), err == nil
}

// FuzzLabeller checks that the labeller either rejects the rendered objects, or adds the labels to each of them.
func FuzzLabeller(f *testing.F) {
	log.SetOutput(io.Discard) // Helm logs unknown hooks
	f.Add("apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\nkind: List\napiVersion: v1\nitems: [{kind: B, apiVersion: v1, metadata: {name: b}}]\n")
	f.Add("- a\n--- \n")
	f.Add("a: &x {b: *x}")
	f.Add("apiVersion: v1\nkind: A\nmetadata:\n  name: a\n  labels: [1]\n")
	f.Add("apiVersion: v1\nkind: A\nmetadata: null\n")
	f.Add("apiVersion: v1\nkind: A\nmetadata: [1]\n")
	f.Add("<<: {kind: A}\napiVersion: v1\nitems: []\n")
	f.Add("apiVersion: 0\nkind: 0\nmetadata:\nitems: []")
	f.Fuzz(func(t *testing.T, text string) {
		text, ok := rendered(text)
		if !ok {
			return
		}
		l := &labeller{labels: map[string]string{"heritage": "addon-operator"}}
		out, err := l.Run(bytes.NewBufferString(text))
		if err != nil {
			return
		}
		nodes, err := read(out.String())
		if err != nil {
			t.Fatalf("the labelled text cannot be read: %v\n%s", err, out)
		}
		for _, n := range nodes {
			if n.GetName() != "" && n.GetLabels()["heritage"] != "addon-operator" { // no name: an empty list, which needs no label
				t.Errorf("an object without the label in\n%s", out)
			}
		}
		for _, d := range l.documents {
			_ = d.mortal()
			if d.Name == "" || d.Kind == "" || d.APIVersion == "" {
				t.Errorf("an object without a name, kind or API version: %+v", d.Object)
			}
		}
	})
}
