// Package incidents_test plays incidents from the view of a person on call. Each script in testdata causes an incident
// with the real operator and a real API server. The script reads the output of the command status on a screen of 24
// rows and 80 columns. After that, it may only run commands that the last screen advises, and reads at most three
// screens in all. Then the script removes the cause and runs the commands that the last screen advises. At the end,
// status must report no problem.
package incidents_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"addon-operator/e2e/story"
)

func TestMain(m *testing.M) { story.Main(m) }

func TestIncidents(t *testing.T) { story.Run(t, "testdata") }

// TestSlowIncidents plays the incidents that are reported as problems only after a minute.
func TestSlowIncidents(t *testing.T) {
	if os.Getenv("INCIDENTS") != "all" {
		t.Skip("they take two minutes; run them with make incidents")
	}
	story.Run(t, filepath.Join("testdata", "slow"))
}

// withoutIncident has the alerts that no script in testdata handles. The value names another test of the alert, or the
// reason why there is none.
var withoutIncident = map[string]string{
	"AddonOperatorDown":            "no operator answers: kubectl describes the pod",
	"AddonOperatorStoreUnreadable": "tests of cmd/addon-operator damage the store",
	"AddonOperatorStoreSlow":       "needs a slow disk",
	"AddonOperatorDamagedRecord":   "tests of cmd/addon-operator damage the store",
	"AddonOperatorQueueStalled":    "needs a bug of the store",
	"AddonOperatorWatchFailing":    "the story absent-kinds",
	"AddonsConfigurationNotReady":  "the stories of addons",
}

// TestEachAlertIsFollowedInAnIncident checks that each alert in deploy/monitoring is either handled by a script in
// testdata or listed in withoutIncident.
func TestEachAlertIsFollowedInAnIncident(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join("..", "..", "deploy", "monitoring", "prometheusrule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files, err1 := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	slow, err2 := filepath.Glob(filepath.Join("testdata", "slow", "*.txtar"))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range append(files, slow...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, match := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		_, excepted := withoutIncident[match[1]]
		followed := regexp.MustCompile(`(?m)^alert ` + match[1] + `( |$)`).MatchString(all.String())
		if followed == excepted {
			t.Errorf("%s: followed in an incident %t, listed as without one %t", match[1], followed, excepted)
		}
	}
}
