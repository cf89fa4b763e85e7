package samples_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"addon-operator/e2e/cluster"
	"addon-operator/e2e/operator"
)

// A block is a code block of a document.
type block struct {
	file string // path of the document, relative to the root of the repository
	line int
	info string // the text after the opening fence, such as "sh", "sh test" or "yaml"
	text string
}

// documents returns the paths, relative to the root of the repository, of the Markdown documents in the root and in
// docs, except the generated ones. Pages in docs/reference have tests of their own.
func documents(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	const started = "docs/getting-started.md" // comes before the other pages in docs, because its commands must run first
	out := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", started}
	for _, name := range names {
		if name = "docs/" + filepath.Base(name); name != started && name != "docs/lifecycle.md" && name != "docs/addons-graph.md" {
			out = append(out, name)
		}
	}
	return out
}

// blocks returns the code blocks of all documents.
func blocks(t *testing.T) []block {
	t.Helper()
	var out []block
	for _, name := range documents(t) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		var open *block
		indent := "" // indentation of the open block
		for i, line := range strings.Split(string(text), "\n") {
			before, info, fence := strings.Cut(line, "```")
			switch {
			case fence && open == nil && strings.TrimSpace(before) == "":
				open, indent = &block{file: name, line: i + 1, info: info}, before
			case line == indent+"```":
				out, open = append(out, *open), nil
			case open != nil:
				open.text += strings.TrimPrefix(line, indent) + "\n"
			}
		}
		if open != nil {
			t.Errorf("%s:%d: the block has no end", name, open.line)
		}
	}
	return out
}

// blockOf returns the first code block of the page whose text begins with the given words.
func blockOf(t *testing.T, page, begins string) block {
	t.Helper()
	for _, b := range blocks(t) {
		if b.file == page && strings.HasPrefix(b.text, begins) {
			return b
		}
	}
	t.Fatalf("%s has no block %q", page, begins)
	return block{}
}

// TestCommandsInDocumentsRun runs the code blocks marked "sh test" in the order of the documents. If a block "output"
// follows, the test compares it with what the commands print. The cluster has the objects and the addons configurations
// in e2e/sample, as after the command "make run". The operator runs without the modules in e2e/sample/modules.
func TestCommandsInDocumentsRun(t *testing.T) {
	home, environment := newHome(t)
	repositories := home.serveRepository()
	p := start(t, environment, "ADDON_OPERATOR_ADDONS_DEVELOP_MODE=true")
	metricsServed(t, p)
	ran, compared := 0, 0
	all := blocks(t)
	for i, b := range all {
		if b.info != "sh test" {
			continue
		}
		ran++
		if i+1 == len(all) || all[i+1].info != "output" || all[i+1].file != b.file {
			if output, err := home.run(b); err != nil {
				t.Errorf("%s:%d: %v\n%s%s", b.file, b.line, err, b.text, output)
			}
			continue
		}
		compared++
		eventually(t, fmt.Sprintf("%s:%d prints what the page shows", b.file, b.line), func() error {
			output, err := home.run(b)
			if err == nil {
				err = all[i+1].shownIn(strings.ReplaceAll(output, repositories, "http://127.0.0.1:9651"))
			}
			return err
		})
	}
	if ran < 10 || compared < 5 {
		t.Errorf("only %d blocks are marked to be run, %d of them with their output", ran, compared)
	}
}

// shownIn returns an error if output lacks a line of the block, or has the lines in another order. In the block, "…"
// matches any text, and a space matches one or more spaces. A line of output may have further text before and after the
// text of the block's line.
func (b block) shownIn(output string) error {
	rest := output
	for line := range strings.Lines(b.text) {
		words := strings.Fields(line)
		for i, word := range words {
			words[i] = strings.ReplaceAll(regexp.QuoteMeta(word), "…", ".*")
		}
		at := regexp.MustCompile(strings.Join(words, " +")).FindStringIndex(rest)
		if at == nil {
			return fmt.Errorf("%s:%d: no line %q, or not in this order, in\n%s", b.file, b.line, strings.TrimSpace(line), output)
		}
		rest = rest[at[1]:]
	}
	return nil
}

// A home is a directory in which the commands of the docs can run. It has the files that the repository has while the
// command "make run" is active.
type home struct {
	t   *testing.T
	dir string
	// exports is the code block of docs/getting-started.md that sets environment variables for later blocks.
	exports block
}

// run runs the code block h.exports and then the code block b in one bash process, and returns their output.
func (h home) run(b block) (string, error) {
	ctx, cancel := context.WithTimeout(h.t.Context(), 5*time.Minute) // a block can wait for the deletion of a namespace
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", h.exports.text+b.text)
	shell.Dir = h.dir
	shell.Env = append(os.Environ(), "KUBECONFIG=", "KUBECACHEDIR="+filepath.Join(h.dir, "kubectl"), "DEBUG_UNIX_SOCKET=")
	output, err := shell.CombinedOutput()
	return string(output), err
}

// serveRepository serves .run/repository with the sample addons, as the command "make run" does, and creates the addons
// configurations of the sample. serveRepository returns the URL of the server.
func (h home) serveRepository() string {
	h.t.Helper()
	sample := filepath.Join(h.dir, ".run", "repository", "sample")
	urlFile := filepath.Join(h.dir, ".run", "repository.url")
	absolute, err := filepath.Abs(root)
	if err != nil {
		h.t.Fatal(err)
	}
	prepare := block{text: fmt.Sprintf(`mkdir -p %[2]s
bin/addon-operator addons package %[1]s/e2e/sample/addons --destination %[2]s
bin/addon-operator addons index %[1]s/e2e/sample/addons --destination %[2]s
cp %[1]s/e2e/sample/broken-index.yaml %[2]s
kubectl apply --server-side -f %[1]s/deploy/crds.yaml
`, absolute, sample)}
	if output, err := h.run(prepare); err != nil {
		h.t.Fatalf("%v\n%s", err, output)
	}
	server := exec.CommandContext(h.t.Context(), "bin/repository", "-listen", "127.0.0.1:0", "-url-file", urlFile, filepath.Dir(sample))
	server.Dir = h.dir
	if err := server.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = server.Wait() }) // the end of the test's context kills the server
	var url string
	eventually(h.t, "the sample repository is served", func() error {
		text, err := os.ReadFile(urlFile)
		url = strings.TrimSpace(string(text))
		return err
	})
	create := block{text: fmt.Sprintf(`sed "s|REPOSITORY|%s|" %s/e2e/sample/configurations.yaml >.run/configurations.yaml
kubectl apply -f .run/configurations.yaml
`, url, absolute)}
	eventually(h.t, "the API server serves addons configurations", func() error {
		output, err := h.run(create)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, output)
		}
		return err
	})
	return url
}

// launchHome makes a home with a cluster of its own. path is the path of the operator's program.
func launchHome(t *testing.T) (h home, c *cluster.Cluster, path string) {
	t.Helper()
	h = home{t: t, dir: shortDir(t), exports: blockOf(t, "docs/getting-started.md", "export KUBECONFIG=")}
	path = linkPrograms(t, h.dir)
	return h, cluster.Launch(t, filepath.Join(h.dir, ".run", "cluster")), path
}

// newHome makes a home, creates the objects in e2e/sample in its cluster, and returns the environment of an operator
// for it.
func newHome(t *testing.T) (home, operator.Environment) {
	t.Helper()
	h, c, path := launchHome(t)
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	create := block{text: fmt.Sprintf(`kubectl create namespace addon-operator
kubectl -n addon-operator create -f %[1]s/e2e/sample/config.yaml
kubectl create -f %[1]s/e2e/sample/objects.yaml
`, absolute)}
	if output, err := h.run(create); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return h, operator.Environment{
		Program: path, Dir: filepath.Join(h.dir, ".run"), Kubeconfig: c.Kubeconfig(), Namespace: "addon-operator",
		ModulesDir: filepath.Join(absolute, "modules"), GlobalHooksDir: filepath.Join(absolute, "global-hooks"),
	}
}

var (
	operatorCommand = regexp.MustCompile(`(?m)^[^#\n]*addon-operator ((?:addons|workflow|queue|task|module|global|store|start|version|raw)\b(?: [a-z]+)?)`)
	inlineCommand   = regexp.MustCompile("`((?:addons|workflow|queue|task|module|global|store) [a-z]+)[^`]*`")
	makeCommand     = regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)")
)

// TestCommandsInDocumentsExist checks the targets of make and the commands of the operator in the documents: each of
// them must exist.
func TestCommandsInDocumentsExist(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{} // path of a document that shows the command, by command
	for _, name := range documents(t) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range append(operatorCommand.FindAllStringSubmatch(string(text), -1), inlineCommand.FindAllStringSubmatch(string(text), -1)...) {
			shown[found[1]] = name
		}
		for _, found := range makeCommand.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(string(makefile), "\n"+found[1]+":") {
				t.Errorf("%s shows make %s, which does not exist", name, found[1])
			}
		}
	}
	if len(shown) < 8 {
		t.Errorf("only these commands were found: %v", shown)
	}
	for command, name := range shown {
		output, err := exec.Command(path, append(strings.Fields(command), "--help")...).CombinedOutput()
		if err != nil || !strings.Contains(string(output), "addon-operator "+command) {
			t.Errorf("%s shows addon-operator %s, which does not exist: %v", name, command, err)
		}
	}
}

// TestQuotedFilesSayWhatIsQuoted checks each code block whose first line is the path of a sample file: the file must
// contain the rest of the block.
func TestQuotedFilesSayWhatIsQuoted(t *testing.T) {
	quoted := 0
	for _, b := range blocks(t) {
		first, rest, _ := strings.Cut(b.text, "\n")
		path, ok := strings.CutPrefix(first, "# ")
		if !ok || !strings.HasPrefix(path, "modules/") && !strings.HasPrefix(path, "global-hooks/") {
			continue
		}
		quoted++
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Errorf("%s:%d: %v", b.file, b.line, err)
		} else if !strings.Contains(string(text), rest) {
			t.Errorf("%s:%d: %s does not say:\n%s", b.file, b.line, path, rest)
		}
	}
	if quoted < 5 {
		t.Errorf("only %d blocks quote a sample", quoted)
	}
}

var (
	metric = regexp.MustCompile(`\baddon_operator_[a-z_]*`)
	help   = regexp.MustCompile(`(?m)^# HELP (\S+)`)
)

// metricsServed checks that a running operator serves all metrics that are named in docs/operations.md and in the
// dashboard. It leaves out counters of errors and of dropped data, because the operator serves those of them that have
// labels only after they have counted something.
func metricsServed(t *testing.T, p *operator.Process) {
	t.Helper()
	named := map[string]string{} // path of a file that names the metric, by metric
	for _, file := range []string{"docs/operations.md", "deploy/dashboard.json"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metric.FindAllString(string(text), -1) {
			name = strings.TrimSuffix(name, "_bucket")
			if name != "addon_operator_" && !strings.HasSuffix(name, "_errors_total") && !strings.HasSuffix(name, "_dropped_total") {
				named[name] = file
			}
		}
	}
	// One scrape can lack metrics, such as those of waiting tasks if no task waits. So the map named missing has the
	// metrics that no scrape has shown yet.
	missing := maps.Clone(named)
	eventually(t, "all metrics that are named are served", func() error {
		page, err := get(t, p, "/metrics")
		if err != nil {
			return err
		}
		for _, found := range help.FindAllStringSubmatch(page, -1) {
			delete(missing, found[1])
		}
		if len(missing) > 0 {
			return fmt.Errorf("not served: %v", missing)
		}
		return nil
	})
}

// carriedOut names the test of each code block that has a language, is not marked "sh test" or "output", and does not
// quote a sample file. The keys are the path of the document and the beginning of the block.
var carriedOut = map[string]map[string]string{
	"README.md": {
		"make run":     "TestRunPipedIntoTeeServesWebhooksAndLeavesNothingAtCtrlC",
		"docker build": "TestImageIsBuilt",
		"cd deploy":    "TestOperatorMovesOverIsReadyAndMovesBack",
		"FROM registry.example.com/addon-operator": "TestImageHasWhatHooksAreTold",
	},
	"CONTRIBUTING.md": {"make ": "TestCommandsInDocumentsExist"},
	"docs/getting-started.md": {
		"git clone":                "TestRunPipedIntoTeeServesWebhooksAndLeavesNothingAtCtrlC",
		"make run CLUSTER=current": "TestRunLeavesReleasesOfOthersAlone",
	},
	"docs/addons-configurations.md": {
		"kubectl create secret generic repository": "TestStories/addons-credentials",
		"ssh-keyscan": "TestKeysThatSSHKeyscanPrintsAreKnown",
	},
	"docs/moving-over.md": {
		"FROM registry.example.com/addon-operator":    "TestImageHasWhatHooksAreTold",
		"kubectl -n addon-operator scale deployment":  "TestOperatorMovesOverIsReadyAndMovesBack",
		"kubectl -n addon-operator scale statefulset": "TestOperatorMovesOverIsReadyAndMovesBack",
	},
	"docs/operations.md": {
		"kubectl -n addon-operator exec":   "TestEveryVerbShowsWhatTheOperatorDoes",
		"bin/addon-operator task retry":    "TestStories/retry-and-skip-by-hand",
		"bin/addon-operator task skip":     "TestStories/retry-and-skip-by-hand",
		"bin/addon-operator task release":  "TestStories/quarantined-hook",
		"bin/addon-operator task cancel":   "TestStories/hanging-hook",
		"bin/addon-operator pause":         "TestStories/pause",
		"bin/addon-operator resume":        "TestStories/pause",
		"bin/addon-operator module run":    "TestRequestedModuleRunPassesAFailingModule",
		"addon-operator webhooks withdraw": "TestWebhooksWithFailAreShownOnceTheOperatorIsStoppedAndCanBeWithdrawn",
	},
	"docs/web-page.md": {
		"kubectl -n addon-operator port-forward": "TestWebPageIsServedToThisHostOnly",
	},
	"docs/writing-hooks.md": {
		"bin/addon-operator test --crash-every-step":       "TestSamplesBearAKillAtEveryStep",
		"if [[ $ADDON_OPERATOR_PREVIOUS == interrupted ]]": "TestHookOfTheDocumentsCleansUpAfterAnInterruption",
		"configVersion: v1":                                "TestConfigOfWritingHooksIsValid",
		"web:\n  internal":                                 "TestHooksAddBelowTheParentThatWritingHooksDeclares",
		"x-extend":                                         "TestHooksAddBelowTheParentThatWritingHooksDeclares",
	},
	"docs/writing-modules.md": {"data:": "TestTheConfigMapOfWritingModulesIsValid"},
}

// TestEveryInstructionInDocumentsIsCarriedOutByATest fails for each code block that needs a test but has none in
// [carriedOut], and for each key of carriedOut that no block matches.
func TestEveryInstructionInDocumentsIsCarriedOutByATest(t *testing.T) {
	tests := testsOfTheRepository(t)
	unseen := map[string]string{} // documents of the blocks in carriedOut that have not been found yet
	for page, named := range carriedOut {
		for begins := range named {
			unseen[page+": "+begins] = page
		}
	}
	for _, b := range blocks(t) {
		quotes := strings.HasPrefix(b.text, "# modules/") || strings.HasPrefix(b.text, "# global-hooks/")
		if b.info == "" || b.info == "output" || b.info == "sh test" || quotes { // a block without a language shows output
			continue
		}
		name := ""
		for begins, test := range carriedOut[b.file] {
			if strings.HasPrefix(b.text, begins) {
				name = test
				delete(unseen, b.file+": "+begins)
			}
		}
		story, isStory := strings.CutPrefix(name, "TestStories/")
		switch {
		case name == "":
			t.Errorf("%s:%d: no test carries this out: mark it \"sh test\", or name its test\n%s", b.file, b.line, b.text)
		case isStory:
			if _, err := os.Stat(filepath.Join(root, "e2e", "testdata", story+".txtar")); err != nil {
				t.Errorf("%s:%d: %v", b.file, b.line, err)
			}
		case !strings.Contains(tests, "\nfunc "+name+"("):
			t.Errorf("%s:%d: there is no %s", b.file, b.line, name)
		}
	}
	for block, page := range unseen {
		t.Errorf("%s has no block %q", page, block)
	}
}

// testsOfTheRepository returns the text of all Go test files of the repository.
func testsOfTheRepository(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestHookOfTheDocumentsCleansUpAfterAnInterruption(t *testing.T) {
	for _, b := range blocks(t) {
		if b.file != "docs/writing-hooks.md" || !strings.Contains(b.text, "$ADDON_OPERATOR_PREVIOUS") {
			continue
		}
		for previous, left := range map[string]bool{"none": true, "failed": true, "interrupted": false} {
			work := filepath.Join(t.TempDir(), "work")
			if err := os.Mkdir(work, 0o700); err != nil {
				t.Fatal(err)
			}
			shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", b.text)
			shell.Env = append(os.Environ(), "ADDON_OPERATOR_PREVIOUS="+previous, "work="+work)
			if output, err := shell.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			if _, err := os.Stat(work); (err == nil) != left {
				t.Errorf("after an attempt that ended %s: %v", previous, err)
			}
		}
		return
	}
	t.Error("the page shows no such hook")
}
