package settings

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"addon-operator/triggers"
)

// Check returns an Error for the first invalid setting.
func (s *Settings) Check() error {
	for _, check := range []func() error{
		s.checkChoices, s.checkNumbers, s.checkMetricsPrefix, checkHelm2, s.checkPorts, s.checkDebugPort,
		s.Webhooks.check, s.Addons.check, s.Web.check, s.checkTracing, s.checkLabels,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkChoices returns an error for an invalid value of a setting with a fixed set of values.
func (s *Settings) checkChoices() error {
	for _, choice := range []struct {
		flag, value string
		of          []string
	}{
		{"startup", s.Startup, texts(triggers.Always, triggers.IfChanged, triggers.Again, triggers.Clean)},
		{"schedule-missed", s.ScheduleMissed, texts(triggers.Skip, triggers.Once)},
		{"lease", s.Lease, []string{LeaseRequired, LeaseOff}},
		{"ungrouped-metrics", s.UngroupedMetrics, []string{KeepMetrics, ExpireMetrics}},
		{"withdraw-webhooks-on-shutdown", s.WithdrawWebhooks, withdrawals},
		{"on-module-failure", s.OnModuleFailure, []string{BlockOnFailure, ContinueOnFailure}},
	} {
		if !slices.Contains(choice.of, choice.value) {
			last := len(choice.of) - 1
			return Invalid("--%s must be %s or %s (got %q)", choice.flag, strings.Join(choice.of[:last], ", "), choice.of[last], choice.value)
		}
	}
	return nil
}

func texts[T ~string](values ...T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

func (s *Settings) checkMetricsPrefix() error {
	if !metricsPrefix.MatchString(s.MetricsPrefix) {
		return Invalid("--prometheus-metrics-prefix must have only letters, digits, _ and :, and not begin with a digit (got %q)", s.MetricsPrefix)
	}
	return nil
}

// checkHelm2 returns an error if an environment variable for Helm 2 is set.
func checkHelm2() error {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if slices.Contains([]string{"HELM2", "TILLER_MAX_HISTORY", "TILLER_BIN_PATH"}, name) || strings.HasPrefix(name, "ADDON_OPERATOR_TILLER_") {
			return Invalid("variable %s is set: Helm 2 is not supported; unset the variable", name)
		}
	}
	return nil
}

func (s *Settings) checkDebugPort() error {
	_, _, err := s.DebugPort()
	return err
}

func (s *Settings) checkLabels() error {
	_, err := s.Labels()
	return err
}

// metricsPrefix matches valid prefixes of metric names.
var metricsPrefix = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)?$`)

// checkNumbers returns an error for a number or a duration that is too small.
func (s *Settings) checkNumbers() error {
	if s.ParallelModules < 1 {
		return Invalid("--parallel-modules must be at least 1, which runs modules one after another (got %d)", s.ParallelModules)
	}
	numbers := map[string]float64{
		"history-age": s.HistoryAge.Seconds(), "history-size": float64(s.HistoryMiB), "snapshot-interval": s.SnapshotEvery.Seconds(),
		"allow-purge": float64(s.AllowPurge), "unnumbered-modules-order": float64(s.UnnumberedOrder),
		"kube-client-qps": s.KubeQPS, "kube-client-burst": float64(s.KubeBurst),
		"object-patcher-kube-client-qps": s.ObjectQPS, "object-patcher-kube-client-burst": float64(s.ObjectBurst),
		"object-patcher-kube-client-timeout": s.ObjectTimeout.Seconds(),
		"helm-history-max":                   float64(s.HelmHistoryMax), "helm-timeout": s.HelmTimeout.Seconds(),
		"hook-timeout": s.HookTimeout.Seconds(),
	}
	for _, flag := range slices.Sorted(maps.Keys(numbers)) {
		if numbers[flag] < 0 {
			return Invalid("--%s must not be negative", flag)
		}
	}
	return nil
}

// checkPorts returns an error for the first invalid port, in the alphabetical order of the flags.
func (s *Settings) checkPorts() error {
	ports := map[string]int{
		"prometheus-listen-port": s.ListenPort, "validating-webhook-listen-port": s.Webhooks.Admission.ListenPort,
		"conversion-webhook-listen-port": s.Webhooks.Conversion.ListenPort,
	}
	for _, flag := range slices.Sorted(maps.Keys(ports)) {
		if port := ports[flag]; port < 0 || port > 65535 {
			return Invalid("--%s must be a port from 0 to 65535 (got %d)", flag, port)
		}
	}
	return nil
}

// CheckDirs returns an error that names the unreadable directories and their flags.
func (s *Settings) CheckDirs() error {
	var errs []error
	look := func(flag, dir string) {
		if _, err := os.ReadDir(dir); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w; create the directory, or name another one", flag, err))
		}
	}
	for dir := range strings.SplitSeq(s.ModulesDirs, ":") {
		look("modules-dir", dir)
	}
	look("global-hooks-dir", s.GlobalHooksDir)
	if len(errs) == 0 {
		return nil
	}
	return &Error{errors.Join(errs...)}
}

// CRDPrefixes returns prefixes of file names: files in crds/ whose names begin with one of these prefixes are ignored.
func (s *Settings) CRDPrefixes() (prefixes []string) {
	for prefix := range strings.SplitSeq(s.CRDFilters, ",") {
		if prefix = strings.TrimSpace(prefix); prefix != "" {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// Labels returns the labels of --crd-extra-labels as a map.
func (s *Settings) Labels() (map[string]string, error) {
	out := map[string]string{}
	for pair := range strings.SplitSeq(s.ExtraLabels, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, Invalid("--crd-extra-labels: %q is not a label: want name=value", pair)
		}
		if wrong := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(wrong) > 0 {
			return nil, Invalid("--crd-extra-labels: %q is not a label: %s", pair, wrong[0])
		}
		out[key] = value
	}
	return out, nil
}
