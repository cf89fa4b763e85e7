package story

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// recorded returns the environment of a story with the recorded runs of hooks. Each run is "HOOK N", with the text of
// its binding context; "-" means none.
func recorded(t *testing.T, runs ...[2]string) *environment {
	t.Helper()
	w := &environment{dir: t.TempDir()}
	if err := os.MkdirAll(w.path("runs"), 0o755); err != nil {
		t.Fatal(err)
	}
	order := ""
	for _, r := range runs {
		order += r[0] + "\n"
		if err := os.MkdirAll(w.path(filepath.Join("runs", r[0])), 0o755); err != nil {
			t.Fatal(err)
		}
		if r[1] == "-" {
			continue
		}
		if err := os.WriteFile(w.path(filepath.Join("runs", r[0], "context.json")), []byte(r[1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(w.path("runs/order"), []byte(order), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestRunsAreListedWithTheirBindingContexts(t *testing.T) {
	t.Parallel()
	w := recorded(t,
		[2]string{"global%a.sh 1", `[{"binding":"onStartup"}]`},
		[2]string{"web%hooks%pods.sh 1", `[{"binding":"pods","type":"Synchronization"},{"binding":"pods","type":"Event","watchEvent":"Added","object":{"metadata":{"name":"a"}}}]`},
		[2]string{"web%enabled 1", "-"},
		[2]string{"web%hooks%pods.sh 2", `[{"binding":"pods","type":"Event","watchEvent":"Deleted"},{"binding":"tick","type":"Schedule"}]`},
	)
	for name, c := range map[string]struct{ hooks, want []string }{
		"all":      {nil, []string{"global/a.sh onStartup", "web/hooks/pods.sh pods@Synchronization pods@Added:a", "web/enabled", "web/hooks/pods.sh pods@Deleted tick@Schedule"}},
		"one hook": {[]string{"web/hooks/pods.sh"}, []string{"web/hooks/pods.sh pods@Synchronization pods@Added:a", "web/hooks/pods.sh pods@Deleted tick@Schedule"}},
		"no such":  {[]string{"web/hooks/pod.sh"}, nil},
	} {
		got, err := w.lines(c.hooks)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v (-want +got):\n%s", name, err, diff)
		}
	}
	if got, err := (&environment{dir: t.TempDir()}).lines(nil); got != nil || err != nil {
		t.Errorf("before the first run: %q, error %v", got, err)
	}
	if err := os.WriteFile(w.path("runs/order"), []byte("web%a.sh one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.lines(nil); err == nil || !strings.HasPrefix(err.Error(), `run "web%a.sh one": `) {
		t.Errorf("a run without a number: error %v", err)
	}
}

func TestAFilterPrintsEachResultOnALine(t *testing.T) {
	t.Parallel()
	const text = `[{"name":"a","n":1},{"name":"<b>","n":12345678}]`
	for filter, want := range map[string]string{
		".[].name": "\"a\"\n\"<b>\"\n", ".[1]": "{\"n\":12345678,\"name\":\"<b>\"}\n", "length": "2\n", "empty": "", ".[5]": "null\n",
	} {
		if got, err := filtered([]byte(text), filter); got != want || err != nil {
			t.Errorf("%s: %q, error %v, want %q", filter, got, err, want)
		}
	}
	for name, c := range map[string]struct{ text, filter, want string }{
		"no JSON":        {"{", ".", ": {"},
		"no filter":      {"{}", ".[", "filter .[: "},
		"a failed one":   {`[1]`, ".[].a", "filter .[].a: "},
		"an empty input": {"", ".", "unexpected end of JSON input: "},
	} {
		if _, err := filtered([]byte(c.text), c.filter); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestAReaderTypesTheFirstCommandOnTheScreenThatMatches(t *testing.T) {
	t.Parallel()
	text := "web fails\n" +
		"  next: addon-operator why web  # the chain of causes\n" +
		"    or: addon-operator task skip 1-2 --reason TEXT\n" +
		"  next: addon-operator task retry 1-2  # once it is mended\n" +
		"  next: kubectl get pods\n" +
		"see addon-operator status\n"
	for name, c := range map[string]struct {
		label, matching string
		want            []string
	}{
		"the first":             {"", "", []string{"why", "web"}},
		"one that matches":      {"", "^task", []string{"task", "skip", "1-2", "--reason", "TEXT"}},
		"one with a label":      {"next", "^task", []string{"task", "retry", "1-2"}},
		"no comment is matched": {"", "mended", nil},
		"no other program":      {"next", "kubectl", nil},
		"no prose":              {"", "^status", nil},
		"an unknown label":      {"nex", "", nil},
	} {
		if diff := cmp.Diff(c.want, advised(text, c.label, regexp.MustCompile(c.matching))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCommandsOfAnAlertAreItsOwnAndThoseOfItsSectionThatRead(t *testing.T) {
	t.Parallel()
	r := &alertRule{Alert: "A", Annotations: map[string]string{"command": "addon-operator status"}, section: "Type `addon-operator status`, then\n" +
		"`addon-operator why\nMODULE`, `addon-operator module list -o wide`, `addon-operator module run MODULE`, `addon-operator statuses`, `kubectl get pods` and `addon-operator logs`.\n"}
	want := [][]string{{"status"}, {"why", "MODULE"}, {"module", "list", "-o", "wide"}, {"logs"}}
	if diff := cmp.Diff(want, r.commands()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.Annotations["command"] = "kubectl get pods"
	if diff := cmp.Diff(append([][]string{{"status"}}, want[1:]...), r.commands()); diff != "" {
		t.Errorf("a command of another program (-want +got):\n%s", diff)
	}
}

func TestRowsOfATextAreThoseOnTheScreen(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0, "a": 1, "a\n": 1, "a\n\nb": 3, strings.Repeat("x", 80): 1, strings.Repeat("x", 81): 2, strings.Repeat("ü", 80) + "\n": 1, strings.Repeat("ü", 161) + "\nb\n": 4,
	} {
		if got := rowsOf(text); got != want {
			t.Errorf("%q has %d rows, want %d", text, got, want)
		}
	}
}

func TestATextIsFlatWithoutTheLinesOfItsTable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", " a \n\t b ": "a b", "│ a │ b │\n│c│": "a b c"} {
		if got := flat(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestAPageIsComparedWithoutCommentsAndIndents(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]string{"a 1", "b # 2"}, withoutComments("# HELP a\n  a 1\n\n\t# TYPE\nb # 2\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAValueIsSearchedInItsUsualForms(t *testing.T) {
	t.Parallel()
	for value, wants := range map[string][]string{
		`a b/"c`:       {`a b/"c`, `a b/\"c`, "a+b%2F%22c", "a%20b%2F%22c", "YSBiLyJj"},
		"??>":          {"Pz8+", "Pz8-"},
		"aHVudGVyMg==": {"hunter2"},
	} {
		forms := strings.Join(formsOf(value), "\n")
		for _, want := range wants {
			if !strings.Contains("\n"+forms+"\n", "\n"+want+"\n") {
				t.Errorf("%q is not searched as %q, only as\n%s", value, want, forms)
			}
		}
	}
}

func TestAConcealedValueIsFoundInAnyFileBelowAPath(t *testing.T) {
	t.Parallel()
	w := &environment{dir: t.TempDir()}
	for name, text := range map[string]string{"good/a/log": "password=(redacted)", "bad/a/log": "Authorization: Basic aHVudGVyMg==", "empty/log": " \n", "file": "hunter2"} {
		path := w.path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"good": "", "bad": `log contains "aHVudGVyMg=="`, "empty": "log is empty, so it proves nothing", "file": `file contains "hunter2"`, "none": "no such file",
	} {
		err := checkConcealed(w, nil, []string{"hunter2", path})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}
	if err := checkConcealed(w, nil, []string{"hunter2"}); err == nil || err.Error() != "usage: concealed VALUE PATH..." {
		t.Errorf("without a path: error %v", err)
	}
}

func TestAWaitEndsWithSuccessOrAFinalError(t *testing.T) {
	t.Parallel()
	soon, never := errors.New("not yet"), errors.New("never")
	for name, c := range map[string]struct {
		answers []error
		limit   time.Duration
		want    error
		looks   int
	}{
		"success":               {[]error{nil}, time.Hour, nil, 1},
		"success after a while": {[]error{soon, soon, nil}, time.Hour, nil, 3},
		"a final error":         {[]error{soon, finally(never)}, time.Hour, never, 2},
		"a wrapped final error": {[]error{fmt.Errorf("look: %w", finally(never))}, time.Hour, never, 1},
		"the limit":             {[]error{soon}, -1, soon, 1},
		"no error is not final": {[]error{finally(nil)}, time.Hour, nil, 1},
	} {
		looks := 0
		err := waitAtMost(c.limit, func() error { looks++; return c.answers[looks-1] })
		if err != c.want || looks != c.looks { //nolint:errorlint // the error itself
			t.Errorf("%s: error %v after %d looks, want %v after %d", name, err, looks, c.want, c.looks)
		}
	}
}

func TestAKindIsNotServedYetIfTheServerDoesNotKnowItsPath(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	unknownPath := apierrors.NewGenericServerResponse(404, "post", resource, "", "404 page not found", 0, true)
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no error":               {nil, false},
		"an unknown kind":        {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Widget"}}, true},
		"an unknown path":        {unknownPath, true},
		"a missing object":       {apierrors.NewNotFound(resource, "a"), false},
		"a kind that is deleted": {apierrors.NewMethodNotSupported(resource, "create"), true},
		"an error of the server": {apierrors.NewInternalError(errors.New("etcd")), false},
	} {
		if got := isKindNotServed(c.err); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

func TestTheDeletionOfAnObjectIsDescribedWithItsConditions(t *testing.T) {
	t.Parallel()
	o := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"deletionTimestamp": "2026-03-04T07:06:07+02:00"}, "status": map[string]any{"conditions": []any{"waits"}},
	}}
	if got, want := deletionOf(o), ", being deleted since 2026-03-04T05:06:07Z, conditions [waits]"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := deletionOf(nil) + deletionOf(&unstructured.Unstructured{Object: map[string]any{}}); got != "" {
		t.Errorf("without a deletion: %q", got)
	}
}

func TestTheLogOfAStartIsTheLastPart(t *testing.T) {
	t.Parallel()
	w := &environment{dir: t.TempDir()}
	if got := w.lastLog(); !strings.Contains(got, "no such file") {
		t.Errorf("before the first start, the log is %q", got)
	}
	if err := os.WriteFile(w.path("operator.log"), []byte("--- start 1\none\n--- start 2\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.lastLog(); strings.Contains(got, "one") || !strings.Contains(got, "two\nthree\n") {
		t.Errorf("the log of the last start is %q", got)
	}
	if got := w.log(); !strings.Contains(got, "one") || !strings.Contains(got, "three") {
		t.Errorf("the log is %q", got)
	}
}

func TestAnAlertIsFoundWithItsSectionForThePersonOnCall(t *testing.T) {
	t.Parallel()
	rule, err := findAlert("AddonOperatorDiskFull")
	if err != nil {
		t.Fatal(err)
	}
	if rule.Expr == "" || strings.TrimSpace(rule.section) == "" || strings.Contains(rule.section, "\n### ") {
		t.Errorf("the alert has the expression %q and the section %q", rule.Expr, rule.section)
	}
	if _, err := findAlert("NoSuchAlert"); err == nil || err.Error() != "alert NoSuchAlert does not exist" {
		t.Errorf("an alert that does not exist: error %v", err)
	}
}

func TestARunOfAHookIsFoundFromBothEnds(t *testing.T) {
	t.Parallel()
	w := recorded(t, [2]string{"web%a.sh 1", "-"}, [2]string{"web%b.sh 1", "-"}, [2]string{"web%a.sh 2", "-"}, [2]string{"web%a.sh 3", "-"})
	for number, want := range map[string]int{"1": 1, "3": 3, "-1": 3, "-3": 1} {
		if r, err := w.find("web/a.sh", number); err != nil || r.n != want || r.hook != "web/a.sh" || r.dir != w.path(fmt.Sprintf("runs/web%%a.sh %d", want)) {
			t.Errorf("run %s is %+v, error %v, want run %d", number, r, err, want)
		}
	}
	for number, want := range map[string]string{
		"4": "web/a.sh has run 3 times", "-4": "web/a.sh has run 3 times", "0": `"0" is not the number of a run: want 1 for the first, -1 for the last`,
		"last": `"last" is not the number of a run: want 1 for the first, -1 for the last`,
	} {
		if _, err := w.find("web/a.sh", number); err == nil || err.Error() != want {
			t.Errorf("run %s: error %v, want %s", number, err, want)
		}
	}
}
