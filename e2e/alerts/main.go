// Command alerts tests the alerts of the operator with promtool, whose path is its argument.
//
//	go run ./e2e/alerts bin/promtool
//
// It reads the rules from deploy/monitoring/prometheusrule.yaml. The tests are in e2e/alerts/tests.yaml, in the format
// of promtool. The command must be run in the root of the repository.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: alerts PROMTOOL")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "alerts:", err)
		os.Exit(1)
	}
}

// run checks and tests the rules with promtool. First it writes the spec of the PrometheusRule object to a file,
// because promtool reads rules and not Kubernetes objects.
func run(promtool string) (err error) {
	object, err := os.ReadFile("deploy/monitoring/prometheusrule.yaml")
	if err != nil {
		return err
	}
	var rule struct {
		Spec any `json:"spec"`
	}
	if err := yaml.Unmarshal(object, &rule); err != nil {
		return fmt.Errorf("prometheusrule.yaml: %w", err)
	}
	rules, err := yaml.Marshal(rule.Spec)
	if err != nil {
		return err
	}
	tests, err := os.ReadFile("e2e/alerts/tests.yaml")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "alerts")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for name, text := range map[string][]byte{"rules.yaml": rules, "tests.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal"}, {"test", "rules"}} {
		file := map[string]string{"check": "rules.yaml", "test": "tests.yaml"}[args[0]]
		cmd := exec.Command(promtool, append(args, filepath.Join(dir, file))...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("promtool %s: %w", args[0], err)
		}
	}
	return nil
}
