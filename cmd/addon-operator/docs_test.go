package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/workflow/lifecycle"
)

// pages returns the pages in the root, in docs and in deploy, by path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	texts := map[string]string{}
	read := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".png" {
			return err
		}
		text, err := os.ReadFile(path)
		texts[strings.TrimPrefix(filepath.ToSlash(path), "../../")] = string(text)
		return err
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "deploy"} {
		if err := filepath.WalkDir(filepath.Join(root, name), read); err != nil {
			t.Fatal(err)
		}
	}
	if len(texts) < 25 {
		t.Fatalf("found %d pages only", len(texts))
	}
	return texts
}

// knownFlags returns the flags of all commands, including aliases and flags without effect.
func knownFlags() map[string]bool {
	known := map[string]bool{"help": true, "config": true} // the operator calls hooks with --config
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		}
		for _, below := range c.Commands() {
			visit(below)
		}
	}
	visit(newRoot())
	for alias := range settings.Aliases {
		known[alias] = true
	}
	return known
}

var (
	flagShown = regexp.MustCompile("(?:^|[ `(])--([a-z][a-z0-9-]+)")
	// ofOthers matches lines with flags of other programs, or of functions of the shell framework.
	ofOthers = regexp.MustCompile(`kubectl|kustomize|docker|go run |curl|helm (upgrade|delete)|jq |apk |COPY |::|OPTION`)
)

func TestFlagsInDocumentsExist(t *testing.T) {
	t.Parallel()
	known, shown := knownFlags(), 0
	for name, text := range pages(t) {
		for line := range strings.Lines(text) {
			for _, found := range flagShown.FindAllStringSubmatch(line, -1) {
				if shown++; !known[found[1]] && !beginsOne(known, found[1]) && !ofOthers.MatchString(line) {
					t.Errorf("%s: there is no flag --%s: %s", name, found[1], strings.TrimSpace(line))
				}
			}
		}
	}
	if shown < 100 {
		t.Errorf("only %d flags were found", shown)
	}
}

// beginsOne reports whether name ends in a hyphen and begins the name of a flag. Pages write such a
// prefix of several flags with an ellipsis: --conversion-webhook-….
func beginsOne(known map[string]bool, name string) bool {
	for flag := range known {
		if strings.HasSuffix(name, "-") && strings.HasPrefix(flag, name) {
			return true
		}
	}
	return false
}

// knownVariables returns the environment variables that the operator reads, and the variables that it sets for hooks.
func knownVariables() map[string]bool {
	known := map[string]bool{}
	var s settings.Settings
	f := pflag.NewFlagSet("start", pflag.ContinueOnError)
	settings.Declare(&s, f)
	f.VisitAll(func(one *pflag.Flag) {
		_, variables, _ := strings.Cut(strings.TrimSuffix(one.Usage, "]"), " [$")
		for variable := range strings.SplitSeq(variables, ", $") {
			known[variable] = true
		}
	})
	for _, u := range settings.NotServed {
		known[u.Env] = true
	}
	// A test of package hook compares the page hook-run.md with the variables of a hook.
	for _, variable := range []string{
		"BINDING_CONTEXT_PATH", "VALUES_PATH", "CONFIG_VALUES_PATH", "VALUES_JSON_PATCH_PATH", "CONFIG_VALUES_JSON_PATCH_PATH",
		"KUBERNETES_PATCH_PATH", "METRICS_PATH", "ADMISSION_RESPONSE_PATH", "VALIDATING_RESPONSE_PATH", "CONVERSION_RESPONSE_PATH",
		"MODULE_ENABLED_RESULT", "MODULE_ENABLED_REASON", "ADDON_OPERATOR_TASK_ID", "ADDON_OPERATOR_ATTEMPT",
		"ADDON_OPERATOR_PREVIOUS", "ADDON_OPERATOR_STORE_ID",
		// The OpenTelemetry library and package tracing read the variables with the prefix OTEL_.
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED",
		"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
	} {
		known[variable] = true
	}
	return known
}

var (
	variableShown = regexp.MustCompile(`\b[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+\b`)
	// otherWords are words in capitals that are not environment variables of the operator.
	otherWords = regexp.MustCompile(`^(TILLER_|(STARTUP_)?CONVERGE_|BINDING_CONTEXT_CURRENT_)|^(BASE_IMAGE|BASH_ENV|BUILD_IMAGE|CGO_ENABLED|CRASH_COMMITS|CRON_TZ|INCIDENT_HOLD|NO_COLOR|STORM_SEED|WEBHOOK_URL)$`)
)

func TestVariablesInDocumentsAreRead(t *testing.T) {
	t.Parallel()
	known, shown := knownVariables(), map[string]bool{}
	for name, text := range pages(t) {
		for _, variable := range variableShown.FindAllString(text, -1) {
			if shown[variable] = true; !known[variable] && !otherWords.MatchString(variable) {
				t.Errorf("%s: nothing reads or sets the variable %s", name, variable)
			}
		}
	}
	if len(shown) < 100 {
		t.Errorf("only %d variables were found", len(shown))
	}
}

var (
	readmePicture = regexp.MustCompile("(?s)\n## How it works\n+```\n(.*?)\n```")
	pictureStep   = regexp.MustCompile(`(?:^|[ \n])([1-9][0-9]?[a-z]?) {1,2}([a-z]+(?:-[a-z]+)+)`)
)

// The picture in the README has the text "values changed" instead of the two junctions for changed values.
func TestPictureInTheReadmeShowsEveryStepOfTheLifecycle(t *testing.T) {
	t.Parallel()
	picture := readmePicture.FindStringSubmatch(pages(t)["README.md"])
	if picture == nil {
		t.Fatal("README.md has no picture below How it works")
	}
	shown := map[string]string{}
	for _, step := range pictureStep.FindAllStringSubmatch(picture[1], -1) {
		shown[step[1]] = step[2]
	}
	want := map[string]string{}
	for _, n := range lifecycle.Graph.Nodes {
		if n.ID != lifecycle.GlobalValuesChanged && n.ID != lifecycle.ModuleValuesChanged {
			want[n.Number] = string(n.ID)
		}
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("the picture does not show the lifecycle graph (-graph +picture):\n%s", diff)
	}
}
