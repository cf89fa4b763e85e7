package inspect_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/workflow/inspect"
)

// longError has more lines than a screen, and its lines are longer than the width of a screen.
var longError = strings.Repeat("Pod controller-7d9c: ImagePullBackOff: registry.example.com/ingress/controller:1.14.2: not found\n", 30) + "the last line"

// failing sets up a run in which module ingress-nginx fails with longError. A module with a long name is done, and
// other modules wait behind the failing module.
func failing(w *fixture) {
	w.discovers(append([]string{"a-module-with-quite-a-long-name-for-one", "ingress-nginx"}, names("behind", 12)...)...)
	w.fails("release-upgrade ingress-nginx", longError)
	w.start(onStart, onConfigMap("4711"))
	sleep(3 * time.Minute)
}

// oneLine returns text without the line breaks and the drawn lines that the layout adds.
func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", "", "├─", "", "└─", "").Replace(text)), " ")
}

func TestReasonsAreNeverCutOffInWideTextAndInPipes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		failing(w)
		run := w.snapshot(1)
		for name, l := range map[string]inspect.Layout{
			"wide, 80 columns":  {Wide: true},
			"wide, 200 columns": {Wide: true, Width: 200},
			"pipe":              {Whole: true, Width: inspect.Unlimited},
			"pipe, COLUMNS=80":  {Whole: true, Width: 80},
		} {
			text := inspect.Text(run, l)
			for _, want := range append(names("behind", 12), oneLine(longError)) {
				if !strings.Contains(oneLine(text), want) {
					t.Errorf("%s: %q is cut off:\n%s", name, want, text)
				}
			}
			if strings.Contains(text, "left out") || !strings.Contains(text, "the last line") {
				t.Errorf("%s: lines are left out:\n%s", name, text)
			}
		}
		if text := inspect.Text(run, inspect.Layout{Whole: true, Width: inspect.Unlimited}); strings.Count(text, "controller:1.14.2: not found\n") != 30 {
			t.Errorf("a pipe gets broken lines:\n%s", text)
		}
	})
}

func TestTextIsReadableIn80AndIn200Columns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		failing(w)
		run := w.snapshot(1)
		compare(t, "columns-80.txt", inspect.Text(run, inspect.Layout{Program: "addon-operator"}))
		compareAny(t, "columns-200.txt", inspect.Text(run, inspect.Layout{Program: "addon-operator", Width: 200}))
		compare(t, "columns-80-wide.txt", inspect.Text(run, inspect.Layout{Program: "addon-operator", Wide: true}))
	})
}

func TestTimesAreInTheZoneOfTheReaderOrUTC(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		failing(w)
		run := w.snapshot(1)
		utc := inspect.Text(run, inspect.Layout{})
		if !strings.Contains(utc, "began     00:00:00Z, ") || !strings.Contains(utc, "last try 00:02:35Z") {
			t.Errorf("in UTC:\n%s", utc)
		}
		local := inspect.Text(run, inspect.Layout{Zone: time.FixedZone("IST", 19800)})
		for _, want := range []string{"began     05:30:00 IST, ", "last try 05:32:35, next try 05:33:05 (in 5s)", " 05:32:35   0.0s   8"} {
			if !strings.Contains(local, want) {
				t.Errorf("in India %q is missing:\n%s", want, local)
			}
		}
		// The date depends on the time zone.
		day := inspect.Layout{Now: time.Date(2026, 3, 2, 1, 0, 0, 0, time.UTC), Zone: time.FixedZone("PST", -8*3600)}
		if got := day.Clock(time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC)); got != "15:30:00" {
			t.Errorf("the time of the same day is %q", got)
		}
	})
}

func TestLastColumnOfATableContinuesOnFurtherLines(t *testing.T) {
	t.Parallel()
	why := "module-beforehelm hooks/fails.sh failed 8 times: exit status 3: cannot reach https://registry.example.com/a/long/path/of/an/image:1.2.3, " +
		strings.Repeat("which is tried again, ", 12) + "the end"
	rows := [][]string{{"MODULE", "STATE", "REASON"}, {"cert-manager", "on", "enabled by values.yaml"}, {"ingress-nginx", "failing", why}, {"none", "off", ""}}
	compare(t, "table-80.txt", inspect.Layout{}.Table(rows))
	compare(t, "table-80-wide.txt", inspect.Layout{Wide: true}.Table(rows))
	compareAny(t, "table-200.txt", inspect.Layout{Width: 200}.Table(rows))
	if pipe := (inspect.Layout{Whole: true, Width: inspect.Unlimited}).Table(rows); !strings.Contains(pipe, "ingress-nginx  failing  "+why+"\n") {
		t.Errorf("a pipe gets\n%s", pipe)
	}
	// If there is no space beside the other columns, the last column is written below them.
	rows[2][0] = "a-module-with-a-name-that-takes-most-of-the-screen"
	compare(t, "table-80-below.txt", inspect.Layout{}.Table(rows))
}
