package settings

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/retry"
	"addon-operator/internal/webhook"
)

func TestASettingWithFixedValuesListsThemIfItHasAnotherOne(t *testing.T) {
	unsetVariables(t)
	for flag, c := range map[string]struct {
		values []string
		want   string
	}{
		"startup":                       {[]string{"always", "if-changed", "again", "clean"}, "always, if-changed, again or clean"},
		"schedule-missed":               {[]string{"skip", "once"}, "skip or once"},
		"lease":                         {[]string{"required", "off"}, "required or off"},
		"ungrouped-metrics":             {[]string{"keep", "expire"}, "keep or expire"},
		"withdraw-webhooks-on-shutdown": {[]string{"never", "scaled-to-zero", "always"}, "never, scaled-to-zero or always"},
		"on-module-failure":             {[]string{"block", "continue"}, "block or continue"},
	} {
		for _, value := range c.values {
			s := parse(t, "--"+flag+"="+value)
			if err := s.Check(); err != nil {
				t.Errorf("--%s=%s: %v", flag, value, err)
			}
		}
		for _, value := range []string{"", "other", strings.ToUpper(c.values[0])} {
			s := parse(t, "--"+flag+"="+value)
			want := "--" + flag + " must be " + c.want + ` (got "` + value + `")`
			if err := s.Check(); err == nil || err.Error() != want || !isError(err) {
				t.Errorf("--%s=%s: error %v, want %s", flag, value, err, want)
			}
		}
	}
}

func TestNumbersAndDurationsMayBeZeroAndNotNegative(t *testing.T) {
	unsetVariables(t)
	for _, flag := range []string{
		"history-size", "allow-purge", "unnumbered-modules-order", "kube-client-qps", "kube-client-burst", "object-patcher-kube-client-qps",
		"object-patcher-kube-client-burst", "helm-history-max", "history-age", "snapshot-interval", "object-patcher-kube-client-timeout", "helm-timeout", "hook-timeout",
	} {
		negative := "-1"
		if declared().Lookup(flag).Value.Type() == "duration" {
			negative = "-1ns"
		}
		s := parse(t, "--"+flag+"=0")
		if err := s.Check(); err != nil {
			t.Errorf("--%s=0: %v", flag, err)
		}
		s = parse(t, "--"+flag+"="+negative)
		if err := s.Check(); err == nil || err.Error() != "--"+flag+" must not be negative" || !isError(err) {
			t.Errorf("--%s=%s: error %v", flag, negative, err)
		}
	}
}

func TestAPortIsANumberThatTCPHas(t *testing.T) {
	unsetVariables(t)
	for _, flag := range []string{"prometheus-listen-port", "validating-webhook-listen-port", "conversion-webhook-listen-port"} {
		for port, want := range map[string]string{
			"0": "", "65535": "",
			"-1": "--" + flag + " must be a port from 0 to 65535 (got -1)", "65536": "--" + flag + " must be a port from 0 to 65535 (got 65536)",
		} {
			s := parse(t, "--"+flag+"="+port)
			if err := s.Check(); (err == nil) != (want == "") || err != nil && err.Error() != want {
				t.Errorf("--%s=%s: error %v, want %q", flag, port, err, want)
			}
		}
	}
}

func TestAPrefixOfMetricsMakesNamesThatPrometheusAccepts(t *testing.T) {
	t.Parallel()
	for prefix, valid := range map[string]bool{
		"": true, "addon_operator_": true, "_": true, "a:b_": true, "A9": true, ":": true,
		"9a": false, "a-b": false, "a b": false, "ä": false, "a\n": false, "a.": false,
	} {
		s := Settings{MetricsPrefix: prefix}
		if err := s.checkMetricsPrefix(); (err == nil) != valid {
			t.Errorf("%q: error %v, valid %t", prefix, err, valid)
		}
	}
}

func TestOnlyVariablesThatHelm2ReadIsRefused(t *testing.T) {
	for name, refused := range map[string]bool{
		"HELM2": true, "TILLER_MAX_HISTORY": true, "TILLER_BIN_PATH": true, "ADDON_OPERATOR_TILLER_PROBE_LISTEN_PORT": true,
		"HELM2_CACHE": false, "MY_HELM2": false, "TILLER_NAMESPACE": false, "ADDON_OPERATOR_TILLERS": false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "")
			want := "variable " + name + " is set: Helm 2 is not supported; unset the variable"
			if err := checkHelm2(); (err != nil) != refused || refused && err.Error() != want {
				t.Errorf("error %v, want refused %t", err, refused)
			}
		})
	}
}

func TestAllUnreadableDirectoriesAreNamedAtOnce(t *testing.T) {
	t.Parallel()
	good, missing := t.TempDir(), filepath.Join(t.TempDir(), "missing")
	file := filepath.Join(good, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const remedy = "; create the directory, or name another one"
	for name, c := range map[string]struct {
		modules, hooks string
		want           []string // the lines of the error
	}{
		"both directories exist":         {good, good, nil},
		"several directories exist":      {good + ":" + good, good, nil},
		"one of several is missing":      {good + ":" + missing, good, []string{"--modules-dir: open " + missing + ": no such file or directory" + remedy}},
		"the hooks are missing":          {good, missing, []string{"--global-hooks-dir: open " + missing + ": no such file or directory" + remedy}},
		"a file is not a directory":      {good, file, []string{"--global-hooks-dir: fdopendir: not a directory" + remedy}},
		"all are missing":                {missing + ":" + missing + "2", missing, []string{"--modules-dir: open " + missing, "--modules-dir: open " + missing + "2", "--global-hooks-dir: open " + missing}},
		"a colon with nothing behind it": {good + ":", good, []string{"--modules-dir: open : no such file or directory" + remedy}},
	} {
		s := Settings{ModulesDirs: c.modules, GlobalHooksDir: c.hooks}
		err := s.CheckDirs()
		if (err == nil) != (c.want == nil) || err != nil && !isError(err) {
			t.Errorf("%s: error %[2]v of type %[2]T", name, err)
			continue
		}
		if err == nil {
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != len(c.want) {
			t.Errorf("%s: error %v, want %d lines", name, err, len(c.want))
			continue
		}
		for i, want := range c.want {
			flag, _, _ := strings.Cut(want, ":")
			if name != "a file is not a directory" && !strings.HasPrefix(lines[i], want) || !strings.HasPrefix(lines[i], flag+": ") || !strings.HasSuffix(lines[i], remedy) {
				t.Errorf("%s: line %q, want %q", name, lines[i], want)
			}
		}
	}
}

func TestPrefixesOfIgnoredCRDFilesAreTrimmedAndNeverEmpty(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"doc-,_": {"doc-", "_"}, " doc- ,\t_ ": {"doc-", "_"}, "": nil, ",": nil, "a,,b": {"a", "b"}, "a b": {"a b"},
	} {
		s := Settings{CRDFilters: text}
		if diff := cmp.Diff(want, s.CRDPrefixes()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestExtraLabelsArePairsOfAValidNameAndAValidValue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string]string{
		"":                                    {},
		"heritage=addon-operator":             {"heritage": "addon-operator"},
		" a=1 , example.com/b=2,":             {"a": "1", "example.com/b": "2"},
		"a=":                                  {"a": ""},
		"a=1,a=2":                             {"a": "2"},
		"a=" + strings.Repeat("x", 63):        {"a": strings.Repeat("x", 63)},
		strings.Repeat("x", 63) + "=1":        {strings.Repeat("x", 63): "1"},
		"example.com/" + "A_b.c-1" + "=A_b.1": {"example.com/A_b.c-1": "A_b.1"},
	} {
		got, err := (&Settings{ExtraLabels: text}).Labels()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: error %v (-want +got):\n%s", text, err, diff)
		}
	}
	for text, want := range map[string]string{
		"a":                            `--crd-extra-labels: "a" is not a label: want name=value`,
		"a=1,b":                        `--crd-extra-labels: "b" is not a label: want name=value`,
		"=1":                           `--crd-extra-labels: "=1" is not a label: name part must be non-empty`,
		"a=1=2":                        `--crd-extra-labels: "a=1=2" is not a label: `,
		"a b=1":                        `--crd-extra-labels: "a b=1" is not a label: name part must consist of`,
		"a=" + strings.Repeat("x", 64): `is not a label: must be no more than 63`,
		"a/b/c=1":                      `--crd-extra-labels: "a/b/c=1" is not a label: `,
	} {
		got, err := (&Settings{ExtraLabels: text}).Labels()
		if err == nil || !strings.Contains(err.Error(), want) || !isError(err) || got != nil {
			t.Errorf("%q: labels %v, error %v, want %q", text, got, err, want)
		}
	}
}

func TestASettingOfAddonsSaysWhatItMustBe(t *testing.T) {
	t.Parallel()
	valid := Addons{Mode: AddonsOn, Retry: "5s..5m"}
	for name, c := range map[string]struct {
		change func(*Addons)
		want   string
	}{
		"on":                   {func(*Addons) {}, ""},
		"off":                  {func(s *Addons) { s.Mode = AddonsOff }, ""},
		"no retries":           {func(s *Addons) { s.Retry = "0" }, ""},
		"no resync":            {func(s *Addons) { s.Resync = 0 }, ""},
		"another mode":         {func(s *Addons) { s.Mode = "yes" }, `--addons must be one of auto, on, off (got "yes")`},
		"a resync in the past": {func(s *Addons) { s.Resync = -time.Second }, "--addons-resync must not be negative (got -1s)"},
		"delays that shrink": {
			func(s *Addons) { s.Retry = "5m..5s" },
			`--addons-retry: delays "5m..5s": the first must not be negative or longer than the last; write them like 5s..5m`,
		},
		"no delay": {func(s *Addons) { s.Retry = "" }, `--addons-retry: delays "": time: invalid duration ""; write them like 5s..5m, or 0 for none`},
	} {
		s := valid
		c.change(&s)
		if err := s.check(); (err == nil) != (c.want == "") || err != nil && (err.Error() != c.want || !isError(err)) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestDelaysOfAddonsAreOneDelayOrARange(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]retry.Delays{
		"5s..5m": {Resync: time.Minute, First: 5 * time.Second, Longest: 5 * time.Minute},
		"30s":    {Resync: time.Minute, First: 30 * time.Second, Longest: 30 * time.Second},
		"0":      {Resync: time.Minute},
	} {
		if got, err := (&Addons{Resync: time.Minute, Retry: text}).Delays(); err != nil || got != want {
			t.Errorf("%q: %+v, error %v, want %+v", text, got, err, want)
		}
	}
}

func TestASettingOfWebhooksSaysWhatItMustBe(t *testing.T) {
	unsetVariables(t)
	for value, want := range map[string]string{
		"webhook-hooks-at-once=0":                "--webhook-hooks-at-once: must be at least 1 (got 0)",
		"webhook-hooks-at-once=1":                "",
		"validating-webhook-configuration-name=": "--validating-webhook-configuration-name: must not be empty",
		"webhook-url=http://host":                `--webhook-url: must be https://HOST or https://HOST:PORT (got "http://host")`,
		"webhook-url=https://host/path":          `--webhook-url: must be https://HOST or https://HOST:PORT (got "https://host/path")`,
		"webhook-url=https://münchen.example":    `--webhook-url: must be https://HOST or https://HOST:PORT with a host in ASCII, such as xn--mnchen-3ya.example (got "https://münchen.example")`,
		"webhook-url=https://host:8443/":         "",
		"webhook-cert-lifetime=9s":               "--webhook-cert-lifetime: must be at least 10s (got 9s)",
		"webhook-cert-lifetime=10s":              "",
		"parallel-modules=0":                     "--parallel-modules must be at least 1, which runs modules one after another (got 0)",
		"parallel-modules=1":                     "",
	} {
		s := parse(t, "--"+value)
		if err := s.Check(); (err == nil) != (want == "") || err != nil && (err.Error() != want || !isError(err)) {
			t.Errorf("--%s: error %v, want %q", value, err, want)
		}
	}
}

func TestFilesOfAWebhookServerAreThoseOfTheMountUnlessTheyAreNamed(t *testing.T) {
	t.Parallel()
	mounted, empty := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(mounted, "tls.crt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		given WebhookSide
		want  webhook.Files
	}{
		"a mounted Secret": {WebhookSide{mountedAt: mounted}, webhook.Files{Certificate: mounted + "/tls.crt", Key: mounted + "/tls.key", CA: mounted + "/ca.crt"}},
		"no Secret":        {WebhookSide{mountedAt: empty}, webhook.Files{}},
		"a certificate":    {WebhookSide{mountedAt: empty, Cert: "c"}, webhook.Files{Certificate: "c", Key: empty + "/tls.key", CA: empty + "/ca.crt"}},
		"a key":            {WebhookSide{mountedAt: empty, Key: "k"}, webhook.Files{Certificate: empty + "/tls.crt", Key: "k", CA: empty + "/ca.crt"}},
		"a CA":             {WebhookSide{mountedAt: mounted, CA: "a"}, webhook.Files{Certificate: mounted + "/tls.crt", Key: mounted + "/tls.key", CA: "a"}},
		"all files":        {WebhookSide{mountedAt: mounted, Cert: "c", Key: "k", CA: "a"}, webhook.Files{Certificate: "c", Key: "k", CA: "a"}},
	} {
		c.given.ListenAddress, c.given.ListenPort, c.given.ServiceName, c.given.ClientCAs = "127.0.0.1", 9680, "service", []string{"ca.pem"}
		want := webhook.Side{Address: "127.0.0.1", Port: 9680, Service: "service", ClientCAs: []string{"ca.pem"}, Files: c.want}
		if diff := cmp.Diff(want, c.given.Side()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTheTwoWebhookServersHaveDefaultsOfTheirOwn(t *testing.T) {
	unsetVariables(t)
	s := parse(t)
	want := map[string]WebhookSide{
		"admission":  {ServiceName: "addon-operator-admission", ListenAddress: "0.0.0.0", ListenPort: 9680, flagPrefix: "validating-webhook", mountedAt: "/validating-certs"},
		"conversion": {ServiceName: "addon-operator-conversion", ListenAddress: "0.0.0.0", ListenPort: 9681, flagPrefix: "conversion-webhook", mountedAt: "/conversion-certs"},
	}
	got := map[string]WebhookSide{"admission": s.Webhooks.Admission, "conversion": s.Webhooks.Conversion}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(WebhookSide{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOnlyTheLoopbackInterfaceIsLoopback(t *testing.T) {
	t.Parallel()
	hosts := map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.1.2.3": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost.example.com": false, "LOCALHOST.": false, "127.0.0.1.example.com": false, "[::1]": false,
	}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		if got := IsLoopback(host); got != hosts[host] {
			t.Errorf("%q is loopback: %t", host, got)
		}
	}
}

func TestAReplacedDebugAddressIsNamedInTheWarning(t *testing.T) {
	t.Parallel()
	s := Settings{DebugAddress: "0.0.0.0:9652"}
	_, warning, err := s.DebugPort()
	want := "--debug-http-addr is 0.0.0.0:9652; the debug pages are served on 127.0.0.1:9652 only, where kubectl port-forward reaches them"
	if warning != want || err != nil {
		t.Errorf("warning %q, error %v, want %q", warning, err, want)
	}
}

func TestThePageAuthenticatesRequestsIfItHasACertificate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		web  Web
		want bool
	}{{Web{Address: "127.0.0.1:9116"}, false}, {Web{Address: ":9116", CertFile: "c", KeyFile: "k"}, true}} {
		if got := c.web.Authenticated(); got != c.want {
			t.Errorf("%+v: %t", c.web, got)
		}
	}
}

func TestAnInvalidEndpointOfTheOperatorItselfDoesNotDisableTracing(t *testing.T) {
	unsetVariables(t)
	s := parse(t, "--tracing-otlp-endpoint=http://")
	err := s.Check()
	if err == nil || !isError(err) || s.Tracing.disabled || len(s.Warnings) > 0 {
		t.Errorf("error %v, disabled %t, warnings %q", err, s.Tracing.disabled, s.Warnings)
	}
}
