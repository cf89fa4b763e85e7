package webhook

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
)

// page returns the text of the reference page of webhooks.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "webhooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// codeOf returns the code blocks of the page in a language.
func codeOf(t *testing.T, language string) []string {
	t.Helper()
	var out []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(page(t), -1) {
		out = append(out, match[1])
	}
	return out
}

func TestHookOnThePageHasAConfigThatIsTaken(t *testing.T) {
	t.Parallel()
	blocks := codeOf(t, "sh")
	if len(blocks) != 1 {
		t.Fatalf("%d hooks on the page", len(blocks))
	}
	printed, err := exec.Command("bash", "-c", blocks[0], "hook", "--config").Output()
	if err != nil {
		t.Fatal(err)
	}
	config, err := hook.Load(hook.Module, printed)
	if err != nil || len(config.Validating) != 1 {
		t.Errorf("its config is %+v, %v", config, err)
	}
}

func TestContextsOnThePageAreThoseHooksAreTold(t *testing.T) {
	t.Parallel()
	want := []hook.Element{
		{Binding: "replicas.policy.example.com", Type: hook.TypeValidating},
		{Binding: "up", Type: hook.TypeConversion, FromVersion: "v1alpha1", ToVersion: "v1"},
	}
	blocks := codeOf(t, "json")
	if len(blocks) != len(want) {
		t.Fatalf("%d contexts on the page", len(blocks))
	}
	for i, block := range blocks {
		var shown []struct {
			Review json.RawMessage `json:"review"`
		}
		if err := json.Unmarshal([]byte(block), &shown); err != nil {
			t.Fatal(err)
		}
		var review, onPage bytes.Buffer
		if err := json.Compact(&review, shown[0].Review); err != nil {
			t.Fatal(err)
		}
		want[i].Review = review.Bytes()
		context, err := hook.Encode(want[i : i+1])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Compact(&onPage, []byte(block)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(context), onPage.String()); diff != "" {
			t.Errorf("the page (-code +page):\n%s", diff)
		}
		if want[i].Type == hook.TypeConversion {
			if _, err := readConversion(shown[0].Review); err != nil {
				t.Errorf("the review on the page: %v", err)
			}
		}
	}
}

// keysOf returns the words in the first column of the table below a heading of the page.
func keysOf(t *testing.T, heading string) []string {
	t.Helper()
	_, section, found := strings.Cut(page(t), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("the page has no %s", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	_, table, _ := strings.Cut(section, "|---")
	table, _, _ = strings.Cut(table, "\n\n")
	var keys []string
	for line := range strings.Lines(table) {
		column, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		for _, match := range regexp.MustCompile("`([A-Za-z.]+)`").FindAllStringSubmatch(column, -1) {
			key, _, _ := strings.Cut(match[1], ".")
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func TestThePageListsEveryKey(t *testing.T) {
	t.Parallel()
	known := regexp.MustCompile(`known are (.*)`)
	for heading, binding := range map[string]string{
		"Admission bindings": "kubernetesMutating", "Conversion bindings": "kubernetesCustomResourceConversion",
	} {
		_, err := hook.Load(hook.Module, []byte("{configVersion: v1, "+binding+": [{none: 1}]}"))
		match := known.FindStringSubmatch(err.Error())
		want := strings.Split(match[1], ", ")
		slices.Sort(want)
		if diff := cmp.Diff(want, keysOf(t, heading)); diff != "" {
			t.Errorf("%s (-code +page):\n%s", heading, diff)
		}
	}
}

func TestThePageListsEveryResult(t *testing.T) {
	t.Parallel()
	for _, r := range []Result{Allowed, Denied, Done, Refused, Failed, Empty, TimedOut, Withdrawn, Broken} {
		if !strings.Contains(page(t), "`"+string(r)+"`") {
			t.Errorf("the page has no result %s", r)
		}
	}
}
