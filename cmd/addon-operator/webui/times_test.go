package webui_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/inspect"
)

func TestEachViewSaysWhenItWasMadeAndTimesHaveTheirDates(t *testing.T) {
	t.Parallel()
	now := time.Now()
	view := answers{"/workflow/timeline": inspect.Timeline{Entries: []inspect.Entry{{At: now, What: inspect.RunBegan}}}}.view(t, "/timeline", false)
	if !regexp.MustCompile(`<h1>Timeline</h1>\s*<p class="asof">as of <time datetime="[^"]+">\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ</time>`).MatchString(view) {
		t.Errorf("the view does not say when it was made:\n%s", view)
	}
	inOrder(t, view, `">`+now.UTC().Format(time.DateTime)+"Z</time></td>")
}

func TestAHistoryWithoutEntriesSaysSo(t *testing.T) {
	t.Parallel()
	view := answers{"/hook/list": []debugapi.HookLine{{Module: "app", Name: "a.sh"}}}.view(t, "/hook/app/a.sh", false)
	inOrder(t, view, `<h2 id="events">History</h2><p>none yet</p>`)
}

func TestWarningsDoNotHaveTheWeakestColour(t *testing.T) {
	t.Parallel()
	css, err := os.ReadFile("assets/page.css")
	if err != nil {
		t.Fatal(err)
	}
	if _, rule, _ := strings.Cut(string(css), "\n.note {"); strings.Contains(rule[:strings.IndexByte(rule, '}')], "--quiet") {
		t.Error("notes of steps are grey, and so are their warnings")
	}
	found := inspect.Diagnosis{Findings: []inspect.Finding{{Advice: []inspect.Advice{{Args: []string{"task", "release", "1-2"}, Why: "otherwise the operator crashes again"}}}}}
	inOrder(t, answers{"/diagnosis": found}.view(t, "/", false), `<span class="effect">otherwise the operator crashes again</span>`)
}

func TestTimeOfSeveralFailuresIsThatOfTheFirst(t *testing.T) {
	t.Parallel()
	found := inspect.Diagnosis{Findings: []inspect.Finding{{Evidence: []inspect.CauseStep{
		{At: began, Text: "release-upgrade app failed 3 times: no"}, {At: began, Text: "changed before: values"},
	}}}}
	inOrder(t, answers{"/diagnosis": found}.view(t, "/", false), "<li>since <time ", "release-upgrade app failed 3 times", "<li><time ", "changed before")
}
