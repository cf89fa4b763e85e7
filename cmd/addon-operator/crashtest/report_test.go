package crashtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/internal/redact"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// TestADifferenceIsVisibleInItsExcerpts compares random values that differ in one character. The
// excerpts of the two values must differ, and must not be too long.
func TestADifferenceIsVisibleInItsExcerpts(t *testing.T) {
	t.Parallel()
	of := thing{Kind: globalKind}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 6)) //nolint:gosec // a test with a fixed seed
		letters := make([]rune, 1+random.IntN(200))
		for i := range letters {
			letters[i] = rune('a' + random.IntN(26))
			if random.IntN(5) == 0 {
				letters[i] = 'ü'
			}
		}
		a, at := string(letters), random.IntN(len(letters))
		letters[at] = 'X'
		if random.IntN(4) == 0 {
			letters = append(letters[:at:at], letters[at+1:]...)
		}
		differences := diff(state{of: {"x": a}}, state{of: {"x": string(letters)}})
		if len(differences) != 1 {
			t.Fatalf("seed %d: %d differences", seed, len(differences))
		}
		want, got := *differences[0].Want, *differences[0].Got
		if want == got || len([]rune(want)) > longestValue+2 || len([]rune(got)) > longestValue+2 {
			t.Errorf("seed %d: %q at %d is shown as %q and %q", seed, a, at, want, got)
		}
	}
}

func TestExcerptsBeginShortlyBeforeTheFirstDifference(t *testing.T) {
	t.Parallel()
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct{ a, b, wantA, wantB string }{
		"short values":                 {x(59) + "a", x(59) + "b", x(59) + "a", x(59) + "b"},
		"one is long":                  {x(30), x(30) + "b" + x(30), "…" + x(19), "…" + x(19) + "b" + x(30)},
		"a difference at the 21st":     {x(20) + "a" + x(60), x(20) + "b" + x(60), x(20) + "a" + x(60), x(20) + "b" + x(60)},
		"a difference at the 22nd":     {x(21) + "a" + x(60), x(21) + "b" + x(60), "…" + x(19) + "a" + x(60), "…" + x(19) + "b" + x(60)},
		"long values and an empty one": {x(100), "", x(100), ""},
		"characters of several bytes":  {strings.Repeat("ü", 70) + "a", strings.Repeat("ü", 70) + "b", "…" + strings.Repeat("ü", 19) + "a", "…" + strings.Repeat("ü", 19) + "b"},
	} {
		if a, b := excerpts(c.a, c.b); a != c.wantA || b != c.wantB {
			t.Errorf("%s: %q and %q, want %q and %q", name, a, b, c.wantA, c.wantB)
		}
	}
}

func TestSecretsAreNotInADifference(t *testing.T) {
	t.Parallel()
	config, secret := thing{"ConfigMap", "n", "c"}, thing{"Secret", "n", "s"}
	for _, c := range []struct {
		of     thing
		path   string
		hidden bool
	}{
		{secret, "data.user", true},
		{secret, "stringData.user", true},
		{secret, `data["a.b"]`, true},
		{secret, "metadata.labels.user", false},
		{secret, "type", false},
		{config, "data.user", false},
		{config, "data.password", true},
		{config, "data.web.dbPassword", true},
		{config, "data.tokens[0]", true},
		{config, `data["tls.key"]`, true},
		{config, `data["a.b"]["c d-token"].x`, true},
		{config, `data["key of \"a\""]`, false},
		{config, "data.keyboard", false},
	} {
		got := *shown(c.of, c.path, "value of "+c.path, true)
		if (got == redact.Mark) != c.hidden || !c.hidden && got != "value of "+c.path {
			t.Errorf("%s of %s is shown as %q, hidden %t", c.path, c.of, got, c.hidden)
		}
	}
	if shown(config, "data.user", "", false) != nil {
		t.Error("a missing value is shown")
	}
	if got := *shown(config, "data.text", " a\n\tb  c ", true); got != "a b c" {
		t.Errorf("a text of several lines is %q", got)
	}
}

func TestFieldsOfAnyTreeHaveDistinctPaths(t *testing.T) {
	t.Parallel()
	f := fields{}
	f.add("", map[string]any{
		"a.b": 1, "a": map[string]any{"b": 2.5, "": true}, "list": []any{nil, []any{}, map[string]any{}, "x"}, "with space": int64(9007199254740993), "[0]": "y", `q"`: "z",
	})
	want := fields{
		`["a.b"]`: "1", "a.b": "2.5", "a.": "true", "list[0]": "null", "list[1]": "[]", "list[2]": "{}", "list[3]": "x", `["with space"]`: "9007199254740993", `["[0]"]`: "y", `q"`: "z",
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	empty := fields{}
	if empty.add("", map[string]any{}); !cmp.Equal(empty, fields{"": "{}"}) {
		t.Errorf("the fields of an empty tree are %v", empty)
	}
}

func TestAnObjectIsNotChangedWhenItsFieldsAreRead(t *testing.T) {
	t.Parallel()
	const text = "{apiVersion: v1, kind: Service, metadata: {name: a, uid: u}, spec: {clusterIP: 10.0.0.1}, status: {x: 1}, data: {web: 'a: 1'}}"
	o := object(t, text)
	fieldsOf(o, true)
	if diff := cmp.Diff(object(t, text).Object, o.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOnlyTheLastRevisionOfAReleaseIsCompared(t *testing.T) {
	t.Parallel()
	revision := func(version, status string) *unstructured.Unstructured {
		return object(t, fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: x, namespace: shop, labels: {owner: helm, name: web, version: '%s', status: %s}}}", version, status))
	}
	release := thing{releaseKind, "shop", "web"}
	for name, order := range map[string][]*unstructured.Unstructured{
		"in order":         {revision("9", "superseded"), revision("10", "deployed")},
		"in reverse order": {revision("10", "deployed"), revision("9", "superseded")},
		"without a number": {revision("10", "deployed"), revision("", "failed")},
	} {
		s := state{}
		for _, o := range order {
			if !isRelease(o) || isCompared(o) {
				t.Errorf("%s: a revision is a release: %t, compared: %t", name, isRelease(o), isCompared(o))
			}
			s.addRelease(o)
		}
		if diff := cmp.Diff(state{release: {"": "10", "status": "deployed"}}, s); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if isRelease(object(t, "{apiVersion: v1, kind: Role, metadata: {name: x, labels: {owner: helm}}}")) {
		t.Error("a Role is a release")
	}
}

func TestThingsAreNamedByKindNamespaceAndName(t *testing.T) {
	t.Parallel()
	for want, of := range map[string]thing{
		"global values": {Kind: globalKind}, "values of module web": {Kind: valuesKind, Name: "web"}, "Pod n/a": {"Pod", "n", "a"}, "Node a": {Kind: "Node", Name: "a"}, "Job": {Kind: "Job", Namespace: "n"},
	} {
		if got := of.String(); got != want {
			t.Errorf("%+v is %q, want %q", of, got, want)
		}
	}
}

func TestALineIsWrappedBetweenWords(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // a test with a fixed seed
		var words []string
		for range random.IntN(60) {
			words = append(words, strings.Repeat("ü", 1+random.IntN(30)))
		}
		if random.IntN(3) == 0 {
			words = append(words, strings.Repeat("x", 100))
		}
		var out strings.Builder
		writeWrapped(&out, strings.Join(words, "  "))
		text := out.String()
		if got := strings.Fields(text); !slices.Equal(got, words) {
			t.Errorf("seed %d: the words are %q, want %q", seed, got, words)
		}
		for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			indent := len(line) - len(strings.TrimLeft(line, " "))
			if n := len([]rune(line)); n > width && len(strings.Fields(line)) > 1 || indent != 4+2*min(i, 1) {
				t.Errorf("seed %d: line %d has %d columns and an indent of %d: %q", seed, i, n, indent, line)
			}
		}
	}
}

func TestALongListIsCutAndCountsTheRest(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "", 1: "  a\n", 10: strings.Repeat("  a\n", 10), 11: strings.Repeat("  a\n", 10) + "  and 1 more; -o json has all\n"} {
		var out strings.Builder
		if writeList(&out, slices.Repeat([]string{"a"}, n)); out.String() != want {
			t.Errorf("%d lines are written as %q", n, out.String())
		}
	}
}

func TestAReportWithoutFindingsSaysSo(t *testing.T) {
	t.Parallel()
	r := Report{Targets: 1, Rounds: 1, Seconds: 3.9}
	want := "\n1 kill in 3s, of 1 moment of an undisturbed run.\nAll tested rounds had the same results as the undisturbed runs.\n"
	if got := r.Text(); got != want {
		t.Errorf("the report is %q, want %q", got, want)
	}
}

func TestTheResultOfARoundIsItsGravestFinding(t *testing.T) {
	t.Parallel()
	differences := []Difference{{Of: "a"}, {Of: "b"}}
	for want, c := range map[string]struct {
		finding *Finding
		reached bool
	}{
		"not reached":   {nil, false},
		"ok":            {nil, true},
		"a step fails":  {&Finding{Failures: []Failure{{}}, Unfinished: "x", Differences: differences}, true},
		"unfinished":    {&Finding{Unfinished: "x", Differences: differences}, true},
		"2 differences": {&Finding{Differences: differences}, true},
	} {
		if got := result(c.finding, c.reached); got != want {
			t.Errorf("the result is %q, want %q", got, want)
		}
	}
}

func TestARoundEndsWhenAStepFailsTwiceAfterTheKill(t *testing.T) {
	t.Parallel()
	at := func(hook, text string) message {
		return message{Node: lifecycle.ModuleBeforeHelm, Subject: graph.Subject{Module: "web", Hook: hook}, State: store.Failed, Error: text}
	}
	known := step{string(lifecycle.ModuleBeforeHelm), "hook known.sh of module web"}
	r := &round{known: map[step]bool{known: true}, failures: map[step]*Failure{}, recorder: newRecorder()}
	for range 3 {
		if err := r.handle(at("before.sh", "no")); err != nil {
			t.Fatalf("a failure before the kill: %v", err)
		}
	}
	r.killed = true
	for range 3 {
		if err := r.handle(at("known.sh", "as always")); err != nil {
			t.Fatalf("a failure that also occurs without a kill: %v", err)
		}
	}
	if err := r.handle(at("new.sh", "first")); err != nil {
		t.Fatalf("the first failure: %v", err)
	}
	if err := r.handle(at("new.sh", "password=hunter2")); err != errFailing { //nolint:errorlint // the error must not be wrapped
		t.Errorf("the second failure: %v", err)
	}
	want := []Failure{
		{Node: string(lifecycle.ModuleBeforeHelm), Doer: "hook before.sh of module web", Error: "no", Attempts: 3},
		{Node: string(lifecycle.ModuleBeforeHelm), Doer: "hook new.sh of module web", Error: "password=(redacted)", Attempts: 2},
	}
	if diff := cmp.Diff(want, r.newFailures()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := r.handle(message{Begun: true}); err != nil || !r.began {
		t.Errorf("the start of the operator: error %v, began %t", err, r.began)
	}
	if err := r.handle(message{State: store.Done}); err != nil {
		t.Errorf("a success: %v", err)
	}
}

func TestTheOperatorIsStartedWithTheOptionsOfTheTest(t *testing.T) {
	t.Parallel()
	o := Options{Namespace: "shop", ConfigMap: "settings", modules: "/m", globalHooks: "/g"}
	s := o.environment("/w", "/k")
	got := map[string]string{}
	for pair := range slices.Chunk(s.args()[1:], 2) {
		got[pair[0]] = pair[1]
	}
	for flag, want := range map[string]string{
		"--namespace": "shop", "--config-map": "settings", "--modules-dir": "/m", "--global-hooks-dir": "/g",
		"--kube-config": "/k", "--store": "/w/store.db",
	} {
		if got[flag] != want {
			t.Errorf("%s: got %q, want %q", flag, got[flag], want)
		}
	}
}

func TestObjectsOfFilesAreReadInTheirOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := file("one.yaml", "---\n# nothing\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
	two := file("two.json", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"c","namespace":"n"}}`)
	objects, err := readObjects([]string{two, one})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range objects {
		names = append(names, o.GetKind()+" "+o.GetName())
	}
	if diff := cmp.Diff([]string{"Secret c", "ConfigMap b", "ConfigMap a"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, c := range map[string]struct{ path, want string }{
		"a missing file":           {filepath.Join(dir, "none"), "no such file or directory"},
		"an object without a name": {file("bad.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\n"), "document 2: an object needs apiVersion, kind and metadata.name"},
		"no YAML":                  {file("no.yaml", "a: [\n"), "yaml"},
	} {
		if _, err := readObjects([]string{one, c.path}); err == nil || !strings.HasPrefix(err.Error(), c.path+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestModulesAndGlobalHooksAreFoundBelowTheDirectory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dirs, files []string
		want        string // the expected error, without the directory at its beginning; empty if no error is expected
	}{
		"both":                    {[]string{"modules", "global-hooks"}, nil, ""},
		"modules only":            {[]string{"modules"}, nil, ""},
		"global hooks only":       {[]string{"global-hooks"}, nil, ""},
		"neither":                 {[]string{"module"}, nil, " has neither modules nor global-hooks: name the directory that has them"},
		"modules that are a file": {[]string{"global-hooks"}, []string{"modules"}, "/modules is not a directory"},
	} {
		o := &Options{Dir: t.TempDir(), WorkDir: t.TempDir()}
		for _, dir := range c.dirs {
			if err := os.Mkdir(filepath.Join(o.Dir, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, file := range c.files {
			if err := os.WriteFile(filepath.Join(o.Dir, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := o.findDirs()
		if (err == nil) != (c.want == "") || err != nil && err.Error() != o.Dir+c.want {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
		if err != nil {
			continue
		}
		for dir, found := range map[string]string{"modules": o.modules, "global-hooks": o.globalHooks} {
			want := filepath.Join(o.WorkDir, "no-"+dir)
			if slices.Contains(c.dirs, dir) {
				want = filepath.Join(o.Dir, dir)
			}
			if info, err := os.Stat(found); found != want || err != nil || !info.IsDir() {
				t.Errorf("%s: %s are in %s, want %s, error %v", name, dir, found, want, err)
			}
		}
	}
}

func TestAWorkDirTooLongForASocketIsRefused(t *testing.T) {
	t.Parallel()
	o := &Options{WorkDir: "/" + strings.Repeat("x", 80), Dir: t.TempDir()}
	want := fmt.Sprintf("--work-dir %s is 1 bytes too long for the path of a socket in it: name a shorter one", o.WorkDir)
	if err := o.prepare(t.Context()); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	o.WorkDir = o.WorkDir[:len(o.WorkDir)-1]
	if err := o.prepare(t.Context()); err == nil || strings.Contains(err.Error(), "too long") {
		t.Errorf("a work directory of %d bytes: error %v", len(o.WorkDir), err)
	}
}

func TestTheEndOfALogHasItsLastLines(t *testing.T) {
	t.Parallel()
	s := &environment{dir: t.TempDir()}
	if got := s.endOfLog(2); !strings.Contains(got, "no such file") {
		t.Errorf("the end of no log is %q", got)
	}
	if err := os.WriteFile(s.log(), []byte("one\ntwo\nthree\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for lines, want := range map[int]string{1: "three", 2: "two\nthree", 9: "one\ntwo\nthree"} {
		if got := s.endOfLog(lines); got != want {
			t.Errorf("the last %d lines are %q, want %q", lines, got, want)
		}
	}
}

func TestAControlPassesMessagesAndPermissions(t *testing.T) {
	t.Parallel()
	ours, theirs, err := newControl()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if _, err := theirs.Write([]byte("{}\n")); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 16)
	if n, err := ours.Read(line); err != nil || string(line[:n]) != "{}\n" {
		t.Errorf("read %q, %v", line[:n], err)
	}
	if _, err := ours.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if n, err := theirs.Read(line); err != nil || n != 1 {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := ours.Read(line); err == nil {
		t.Errorf("after the end of the operator, %d bytes are read", n)
	}
	if _, err := OpenControl(); err == nil || !strings.Contains(err.Error(), "only the command test starts an operator with a control; use the command start") {
		t.Errorf("a control that no parent made: error %v", err)
	}
}

func TestAMomentWithoutATextIsNamedByItself(t *testing.T) {
	t.Parallel()
	for want, target := range map[string]Target{
		"after the effects of n web (occurrence 3)": {Node: "n", Subject: graph.Subject{Module: "web"}, At: workflow.AtDone, Nth: 3},
		"later n":  {Node: "n", At: "later", Nth: 1},
		"before n": {Node: "n", At: workflow.AtClaimed},
	} {
		if got := target.String(); got != want {
			t.Errorf("the target is %q, want %q", got, want)
		}
	}
}
