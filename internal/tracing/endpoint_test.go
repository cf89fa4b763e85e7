package tracing_test

import (
	"strings"
	"testing"

	"addon-operator/internal/tracing"
)

func field(name string) string { return "--" + name }

func TestInvalidCollectorsAreNamed(t *testing.T) {
	for _, test := range []struct {
		given tracing.Collector
		env   map[string]string
		wrong string // a part of the error; empty if the collector is valid
	}{
		{given: tracing.Collector{Endpoint: "collector:4317"}},
		{given: tracing.Collector{Endpoint: "[::1]:4317"}},
		{given: tracing.Collector{Endpoint: "https://collector.example.com"}},
		{given: tracing.Collector{Endpoint: "http://collector:4318/v1/traces", Protocol: tracing.HTTP}},
		{given: tracing.Collector{Endpoint: "collector"}, wrong: "--Endpoint must be HOST:PORT, or a URL with http or https: the port is missing"},
		{given: tracing.Collector{Endpoint: "collector:http"}, wrong: "the port must be a number"},
		{given: tracing.Collector{Endpoint: "collector:0"}, wrong: "the port must be a number"},
		{given: tracing.Collector{Endpoint: ":4317"}, wrong: "the host is missing"},
		{given: tracing.Collector{Endpoint: "grpc://collector:4317"}, wrong: "the scheme"},
		{given: tracing.Collector{Endpoint: "http://:4317"}, wrong: "the host is missing"},
		{given: tracing.Collector{Endpoint: "http://collector:4317/a"}, wrong: "a path needs the protocol http/protobuf"},
		{given: tracing.Collector{Endpoint: "http://collector:99999"}, wrong: "the port must be a number"},
		{given: tracing.Collector{Endpoint: "http://collector/?a=b"}, wrong: "query"},
		{given: tracing.Collector{Endpoint: "https://user:hunter2@collector"}, wrong: "it must not have credentials"},
		{given: tracing.Collector{Endpoint: "http://\x00"}, wrong: "it cannot be read"},
		{given: tracing.Collector{Endpoint: "collector:4317", Protocol: "http/json"}, wrong: `--Protocol must be grpc or http/protobuf (got "http/json")`},
		{given: tracing.Collector{Protocol: "http/json"}}, // if no collector is set, the protocol is not checked
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"}, wrong: "variable OTEL_EXPORTER_OTLP_ENDPOINT must be a URL"},
		{
			env:   map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "collector"},
			wrong: "variable OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be a URL",
		},
		{given: tracing.Collector{Endpoint: "collector"}, env: map[string]string{"OTEL_SDK_DISABLED": "true"}},
	} {
		t.Run("", func(t *testing.T) {
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			err := test.given.Check(field)
			if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%+v %v: %v, want %q", test.given, test.env, err, test.wrong)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a password is shown: %v", err)
			}
		})
	}
}

func TestTracingIsOffUnlessThereIsACollector(t *testing.T) {
	for _, test := range []struct {
		given tracing.Collector
		env   map[string]string
		want  bool
	}{
		{},
		{given: tracing.Collector{Protocol: tracing.GRPC, Token: "t"}},
		{given: tracing.Collector{Endpoint: "collector:4317"}, want: true},
		{given: tracing.Collector{Endpoint: "collector:4317"}, env: map[string]string{"OTEL_SDK_DISABLED": "True"}},
		{given: tracing.Collector{Endpoint: "collector:4317"}, env: map[string]string{"OTEL_TRACES_EXPORTER": "none"}},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, want: true},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318"}, want: true},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, want: true},
	} {
		t.Run("", func(t *testing.T) {
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			if got := test.given.Enabled(); got != test.want {
				t.Errorf("%+v %v: %t, want %t", test.given, test.env, got, test.want)
			}
		})
	}
}
