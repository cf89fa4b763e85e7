package story

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"
)

var alertCommands = map[string]command{"alert": followAlert}

// An alertRule is an alert in deploy/monitoring, with the text of its section in docs/on-call.md.
type alertRule struct {
	Alert, Expr string
	Annotations map[string]string

	section string
}

// findAlert returns the alert called name. findAlert returns an error if there is none.
func findAlert(name string) (*alertRule, error) {
	root := filepath.Join("..", "..") // the root of the repository, from e2e/incidents, whose stories use this command
	text, err1 := os.ReadFile(filepath.Join(root, "deploy", "monitoring", "prometheusrule.yaml"))
	page, err2 := os.ReadFile(filepath.Join(root, "docs", "on-call.md"))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	var all struct {
		Spec struct{ Groups []struct{ Rules []alertRule } }
	}
	if err := yaml.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	for _, group := range all.Spec.Groups {
		for i := range group.Rules {
			if rule := &group.Rules[i]; rule.Alert == name {
				_, rest, _ := strings.Cut(string(page), "\n### "+name+"\n")
				rule.section, _, _ = strings.Cut(rest, "\n### ")
				return rule, nil
			}
		}
	}
	return nil, fmt.Errorf("alert %s does not exist", name)
}

// followAlert implements the command "alert NAME [PLACEHOLDER=VALUE...]". It does what the page docs/on-call.md says
// about the alert NAME. First it waits until a metric of the alert is at least 1. Then it runs the command in the
// annotations of the alert, if that is a command of the operator. It also runs all other commands of the operator in
// the alert's section of the page that change nothing. Placeholders in the commands, such as MODULE, are replaced by
// the given values.
func followAlert(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return usage("alert NAME [PLACEHOLDER=VALUE...]")
	}
	rule, err := findAlert(args[0])
	if err != nil {
		return err
	}
	if err := rule.fires(w); err != nil {
		return err
	}
	w.reader = &reader{}
	for i, command := range rule.commands() {
		for _, arg := range args[1:] {
			placeholder, value, _ := strings.Cut(arg, "=")
			for j := range command {
				if command[j] == placeholder {
					command[j] = value
				}
			}
		}
		shows := func() error {
			text, err := w.show(command)
			say(ts, "$ addon-operator "+strings.Join(command, " ")+"\n"+text)
			if i == 0 && command[0] == "status" && err == nil && !strings.Contains(text, "needs attention\n") && !strings.Contains(text, "need attention\n") {
				err = fmt.Errorf("the alert fires, but status shows no problem:\n%s", text)
			}
			return err
		}
		// A metric can be above 0 before the problem is shown, and between two occurrences of the problem.
		if err := wait(shows); err != nil {
			return err
		}
	}
	return nil
}

// quotedCommand matches a code span with a command of the operator in a Markdown page.
var quotedCommand = regexp.MustCompile("(?s)`addon-operator ([^`]+)`")

// commands returns the command in the annotations of the alert, if that is a command of the operator. It also returns
// all other commands of the operator in the alert's section of docs/on-call.md that change nothing.
func (r *alertRule) commands() (all [][]string) {
	named, ours := strings.CutPrefix(r.Annotations["command"], "addon-operator ")
	if ours {
		all = append(all, strings.Fields(named))
	}
	for _, match := range quotedCommand.FindAllStringSubmatch(r.section, -1) {
		command := strings.Join(strings.Fields(match[1]), " ")
		if slices.ContainsFunc(readingCommands, func(c string) bool { return strings.HasPrefix(command+" ", c+" ") }) && command != named {
			all = append(all, strings.Fields(command))
		}
	}
	return all
}

// metricOfAlert matches a metric of the operator in the PromQL expression of an alert. If the metric's selector has
// only the label "kind", the match includes the pattern for this label.
var metricOfAlert = regexp.MustCompile(`(addon_operator_\w+)(?:\{kind=~?"([^"]+)"\})?`)

// fires waits until one of the metrics in the expression of the alert is at least 1. If the expression names no metric
// of the operator, fires returns at once.
func (r *alertRule) fires(w *environment) error {
	named := metricOfAlert.FindAllStringSubmatch(r.Expr, -1)
	if len(named) == 0 {
		return nil
	}
	return wait(func() error {
		page, err := w.page("/metrics")
		if err != nil {
			return err
		}
		for _, metric := range named {
			kind := ""
			if metric[2] != "" {
				kind = `[^}]*kind="(` + metric[2] + `)"`
			}
			if regexp.MustCompile(`(?m)^` + metric[1] + `(\{` + kind + `[^}]*\})? [1-9]`).MatchString(page) {
				return nil
			}
		}
		return fmt.Errorf("no metric of %s is above 0: %s", r.Alert, r.Expr)
	})
}
