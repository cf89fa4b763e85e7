package settings

import (
	"strings"
	"testing"

	"addon-operator/internal/tracing"
)

func TestCollectorOfTracesIsReadFromAllItsNames(t *testing.T) {
	for _, test := range []struct {
		name  string
		flags []string
		env   map[string]string
		want  tracing.Collector
	}{
		{name: "none"},
		{
			name: "shell-operator's variables", env: map[string]string{"TRACING_OTLP_ENDPOINT": "a:1", "TRACING_OTLP_AUTH_TOKEN": "t"},
			want: tracing.Collector{Endpoint: "a:1", Token: "t"},
		},
		{
			name: "prefix before none",
			env: map[string]string{
				"ADDON_OPERATOR_TRACING_OTLP_ENDPOINT": "b:1", "TRACING_OTLP_ENDPOINT": "a:1",
				"ADDON_OPERATOR_TRACING_OTLP_AUTH_TOKEN": "u", "TRACING_OTLP_AUTH_TOKEN": "t",
			},
			want: tracing.Collector{Endpoint: "b:1", Token: "u"},
		},
		{
			name: "flag", flags: []string{"--tracing-otlp-endpoint=c:1"}, env: map[string]string{"ADDON_OPERATOR_TRACING_OTLP_ENDPOINT": "b:1"},
			want: tracing.Collector{Endpoint: "c:1"},
		},
		{
			name: "standard protocol", env: map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
			want: tracing.Collector{Protocol: "http/protobuf"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			s := parse(t, test.flags...)
			if got := s.Tracing.Collector(); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
			if err := s.Check(); err != nil || len(s.Warnings) > 0 {
				t.Errorf("error %v, warnings %v", err, s.Warnings)
			}
		})
	}
}

func TestInvalidCollectorOfTracesIsAUsageErrorThatNamesTheSetting(t *testing.T) {
	for _, test := range []struct {
		flags []string
		env   map[string]string
		want  string
	}{
		{flags: []string{"--tracing-otlp-endpoint=collector"}, want: `--tracing-otlp-endpoint must be HOST:PORT, or a URL with http or https: the port is missing, or the address cannot be read (got "collector")`},
		{flags: []string{"--tracing-otlp-endpoint=a:1", "--tracing-otlp-protocol=json"}, want: "--tracing-otlp-protocol must be grpc or http/protobuf"},
	} {
		t.Run(test.want, func(t *testing.T) {
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			s := parse(t, test.flags...)
			if err := s.Check(); err == nil || !strings.Contains(err.Error(), test.want) || !isError(err) {
				t.Errorf("error %[1]v of type %[1]T, want %s", err, test.want)
			}
		})
	}
}

func TestInvalidStandardVariableDisablesTracesWithAWarning(t *testing.T) {
	for _, env := range []map[string]string{
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
	} {
		for name, value := range env {
			t.Setenv(name, value)
		}
		s := parse(t)
		if err := s.Check(); err != nil || s.Tracing.Collector().Enabled() {
			t.Errorf("%v: error %v, collector %+v", env, err, s.Tracing.Collector())
		}
		if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "no traces are sent: ") {
			t.Errorf("%v: warnings %q", env, s.Warnings)
		}
	}
}
