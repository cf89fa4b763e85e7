package settings

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"addon-operator/triggers"
)

// Check returns an Error for the first invalid setting.
func (s *Settings) Check() error {
	switch triggers.Startup(s.Startup) {
	case triggers.Always, triggers.IfChanged, triggers.Again, triggers.Clean:
	default:
		return Invalid("--startup must be always, if-changed, again or clean (got %q)", s.Startup)
	}
	switch triggers.Missed(s.ScheduleMissed) {
	case triggers.Skip, triggers.Once:
	default:
		return Invalid("--schedule-missed must be skip or once (got %q)", s.ScheduleMissed)
	}
	if s.Lease != LeaseRequired && s.Lease != LeaseOff {
		return Invalid("--lease must be %s or %s (got %q)", LeaseRequired, LeaseOff, s.Lease)
	}
	if s.UngroupedMetrics != KeepMetrics && s.UngroupedMetrics != ExpireMetrics {
		return Invalid("--ungrouped-metrics must be %s or %s (got %q)", s.UngroupedMetrics, KeepMetrics, ExpireMetrics)
	}
	if !slices.Contains(withdrawals, s.WithdrawWebhooks) {
		return Invalid("--withdraw-webhooks-on-shutdown must be one of %s (got %q)", strings.Join(withdrawals, ", "), s.WithdrawWebhooks)
	}
	if s.OnModuleFailure != BlockOnFailure && s.OnModuleFailure != ContinueOnFailure {
		return Invalid("--on-module-failure must be %s or %s (got %q)", s.OnModuleFailure, BlockOnFailure, ContinueOnFailure)
	}
	if s.ParallelModules < 1 {
		return Invalid("--parallel-modules must be at least 1, which runs modules one after another (got %d)", s.ParallelModules)
	}
	if err := s.checkBelow(); err != nil {
		return err
	}
	if !metricsPrefix.MatchString(s.MetricsPrefix) {
		return Invalid("--prometheus-metrics-prefix must have only letters, digits, _ and :, and not begin with a digit (got %q)", s.MetricsPrefix)
	}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if slices.Contains([]string{"HELM2", "TILLER_MAX_HISTORY", "TILLER_BIN_PATH"}, name) || strings.HasPrefix(name, "ADDON_OPERATOR_TILLER_") {
			return Invalid("variable %s is set: Helm 2 is not supported; unset the variable", name)
		}
	}
	if err := s.checkPorts(); err != nil {
		return err
	}
	if _, _, err := s.DebugPort(); err != nil {
		return err
	}
	if err := s.Webhooks.check(); err != nil {
		return err
	}
	if err := s.Addons.check(); err != nil {
		return err
	}
	_, err := s.Labels()
	return err
}

// metricsPrefix matches the beginnings of valid names of metrics.
var metricsPrefix = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)?$`)

// checkBelow returns an error for a negative number or time.
func (s *Settings) checkBelow() error {
	for flag, value := range map[string]float64{
		"history-age": s.HistoryAge.Seconds(), "history-size": float64(s.HistoryMiB), "snapshot-interval": s.SnapshotEvery.Seconds(),
		"allow-purge": float64(s.AllowPurge), "unnumbered-modules-order": float64(s.UnnumberedOrder),
		"kube-client-qps": s.KubeQPS, "kube-client-burst": float64(s.KubeBurst),
		"object-patcher-kube-client-qps": s.ObjectQPS, "object-patcher-kube-client-burst": float64(s.ObjectBurst),
		"object-patcher-kube-client-timeout": s.ObjectTimeout.Seconds(),
		"helm-history-max":                   float64(s.HelmHistoryMax), "helm-timeout": s.HelmTimeout.Seconds(),
		"hook-timeout": s.HookTimeout.Seconds(),
	} {
		if value < 0 {
			return Invalid("--%s must not be negative", flag)
		}
	}
	return nil
}

// checkPorts returns an error for a number that is no port.
func (s *Settings) checkPorts() error {
	for flag, port := range map[string]int{
		"prometheus-listen-port": s.ListenPort, "validating-webhook-listen-port": s.Webhooks.Admission.ListenPort,
		"conversion-webhook-listen-port": s.Webhooks.Conversion.ListenPort,
	} {
		if port < 0 || port > 65535 {
			return Invalid("--%s must be a port from 0 to 65535 (got %d)", flag, port)
		}
	}
	return nil
}

// CheckDirs returns an error for the directories that cannot be read, with their flags.
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

// CRDPrefixes returns the prefixes of the names of files in crds that are ignored.
func (s *Settings) CRDPrefixes() (prefixes []string) {
	for prefix := range strings.SplitSeq(s.CRDFilters, ",") {
		if prefix = strings.TrimSpace(prefix); prefix != "" {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// Labels returns the extra labels as a map.
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
