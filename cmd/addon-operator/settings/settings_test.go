package settings

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// parse returns the settings of a command line with these flags.
func parse(t *testing.T, flags ...string) Settings {
	t.Helper()
	var s Settings
	f := pflag.NewFlagSet("start", pflag.ContinueOnError)
	f.SetNormalizeFunc(ByAlias)
	read := Declare(&s, f)
	if err := f.Parse(flags); err != nil {
		t.Fatal(err)
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	return s
}

// isError reports whether err is an [Error].
func isError(err error) bool {
	invalid := (*Error)(nil)
	return errors.As(err, &invalid)
}

func TestFlagsComeBeforeVariablesAndPrefixedOnesBeforePlain(t *testing.T) {
	for _, test := range []struct {
		name  string
		flags []string
		env   map[string]string
		of    func(Settings) any
		want  any
	}{
		{"default", nil, nil, func(s Settings) any { return s.ModulesDirs }, "modules"},
		{"plain variable", nil, map[string]string{"MODULES_DIR": "plain"}, func(s Settings) any { return s.ModulesDirs }, "plain"},
		{"prefixed variable", nil, map[string]string{"MODULES_DIR": "plain", "ADDON_OPERATOR_MODULES_DIR": "prefixed"}, func(s Settings) any { return s.ModulesDirs }, "prefixed"},
		{"flag", []string{"--modules-dir=flag"}, map[string]string{"ADDON_OPERATOR_MODULES_DIR": "prefixed"}, func(s Settings) any { return s.ModulesDirs }, "flag"},
		{"empty variable counts for nothing", nil, map[string]string{"ADDON_OPERATOR_MODULES_DIR": "", "MODULES_DIR": "plain"}, func(s Settings) any { return s.ModulesDirs }, "plain"},
		{"shell-operator's variable", nil, map[string]string{"SHELL_OPERATOR_HOOKS_DIR": "so"}, func(s Settings) any { return s.GlobalHooksDir }, "so"},
		{"shell-operator's flag", []string{"--hooks-dir=so"}, nil, func(s Settings) any { return s.GlobalHooksDir }, "so"},
		{"number", nil, map[string]string{"ADDON_OPERATOR_LISTEN_PORT": "1234"}, func(s Settings) any { return s.ListenPort }, 1234},
		{"three names of one", nil, map[string]string{"UNNUMBERED_MODULE_ORDER": "7"}, func(s Settings) any { return s.UnnumberedOrder }, 7},
		{"yes", nil, map[string]string{"DEBUG_KEEP_TMP_FILES": "yes"}, func(s Settings) any { return s.KeepTemp }, true},
		{"no", nil, map[string]string{"DEBUG_KEEP_TMP_FILES": "no"}, func(s Settings) any { return s.KeepTemp }, false},
		{"switch", []string{"--debug-keep-tmp-files"}, nil, func(s Settings) any { return s.KeepTemp }, true},
		{"no directory is the default one", []string{"--tmp-dir="}, nil, func(s Settings) any { return s.TempDir }, defaultTempDir()},
		{"list", nil, map[string]string{"VALIDATING_WEBHOOK_CLIENT_CA": "a,b"}, func(s Settings) any { return len(s.Webhooks.Admission.ClientCAs) }, 2},
		{"duration", nil, map[string]string{"HELM_TIMEOUT": "90s"}, func(s Settings) any { return s.HelmTimeout.Seconds() }, 90.0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			if got := test.of(parse(t, test.flags...)); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestAVariableThatCannotBeReadIsNamed(t *testing.T) {
	t.Setenv("ADDON_OPERATOR_LISTEN_PORT", "http")
	var s Settings
	f := pflag.NewFlagSet("start", pflag.ContinueOnError)
	err := Declare(&s, f)()
	if err == nil || !strings.Contains(err.Error(), "ADDON_OPERATOR_LISTEN_PORT") || !isError(err) {
		t.Errorf("error %[1]v of type %[1]T", err)
	}
}

func TestWhatIsNotServedIsWarnedOfWithoutItsValue(t *testing.T) {
	t.Setenv("JQ_LIBRARY_PATH", "do-not-show")
	t.Setenv("ADDON_OPERATOR_HA", "true")
	s := parse(t, "--jq-library-path=/lib", "--shell-chroot-dir=/lib")
	warnings := strings.Join(s.Warnings, "\n")
	for _, want := range []string{"JQ_LIBRARY_PATH", "ADDON_OPERATOR_HA", "--jq-library-path", "--shell-chroot-dir"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("no word of %s in:\n%s", want, warnings)
		}
	}
	if strings.Contains(warnings, "do-not-show") || strings.Contains(warnings, "/lib") {
		t.Errorf("the warnings contain values:\n%s", warnings)
	}
	if len(s.Warnings) != 4 {
		t.Errorf("%d warnings, want 4:\n%s", len(s.Warnings), warnings)
	}
}

func TestSettingsThatMakeNoSenseAreErrorsThatNameTheFlag(t *testing.T) {
	for _, test := range []struct{ flag, value string }{
		{"startup", "sometimes"},
		{"schedule-missed", "twice"},
		{"crd-extra-labels", "heritage"},
		{"parallel-modules", "0"},
		{"history-size", "-1"},
		{"helm-timeout", "-1s"},
		{"helm-history-max", "-1"},
		{"kube-client-qps", "-0.5"},
		{"object-patcher-kube-client-timeout", "-1ms"},
		{"prometheus-metrics-prefix", "addon-operator-"},
		{"prometheus-metrics-prefix", "0_"},
		{"validating-webhook-client-ca", "/none"},
		{"crd-extra-labels", "no label=x"},
		{"prometheus-listen-port", "70000"},
		{"conversion-webhook-listen-port", "-1"},
		{"conversion-webhook-server-cert", "/none"},
	} {
		s := parse(t, "--"+test.flag+"="+test.value)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), "--"+test.flag) || !isError(err) {
			t.Errorf("--%s=%s: error %v of type %[3]T", test.flag, test.value, err)
		}
	}
	for _, name := range []string{"TILLER_BIN_PATH", "ADDON_OPERATOR_TILLER_LISTEN_PORT", "HELM2"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "x")
			s := parse(t)
			if err := s.Check(); err == nil || !strings.Contains(err.Error(), name) || !isError(err) {
				t.Errorf("a variable of Helm 2: error %[1]v of type %[1]T", err)
			}
		})
	}
}
