package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
)

// Run is one execution of a hook. It has the inputs of the execution and collects its outputs.
type Run struct {
	// Elements are the binding context: the reasons for this run, in the order in which they occurred.
	Elements []Element
	// Values are the merged values. The operator saves changes of Values. Each time it merges the values, it applies
	// the changes again, until they are dropped: for example, when the module is disabled or the hook is deleted. The
	// page docs/reference/values-and-schemas.md lists all cases.
	Values *Values
	// ConfigValues are the values of the operator's ConfigMap. The operator writes changes to the ConfigMap, where
	// users see them. A run that answers a review request of the API server fails if it changes ConfigValues.
	ConfigValues *Values
	// Objects collects operations on objects in the cluster.
	Objects *Objects
	// Metrics collects changes of the metrics that the hook reports and the operator serves.
	Metrics *Metrics
	// Log writes to the operator's log. The operator adds the name of the hook to each line.
	Log *slog.Logger
	// Attempt is the number of this attempt at the task, counted from 1; 0 if the operator does not report it.
	Attempt int
	// Interrupted is true if the operator ended during the previous attempt. Then it is unknown what the hook did in
	// that attempt.
	Interrupted bool

	verdict   *verdict
	converted *conversionResult
}

// newRun reads the input files whose paths are in env. It skips variables that are not set, because an operator may
// not support all files. Only the binding context is required.
func newRun(env environment, stdout io.Writer) (*Run, error) {
	r := &Run{
		Values:       &Values{variable: "VALUES_JSON_PATCH_PATH"},
		ConfigValues: &Values{variable: "CONFIG_VALUES_JSON_PATCH_PATH"},
		Objects:      &Objects{},
		Metrics:      &Metrics{changes: new([]metric)},
		Log:          newLog(stdout),
		Interrupted:  env.lookup("ADDON_OPERATOR_PREVIOUS") == "interrupted",
	}
	r.Attempt, _ = strconv.Atoi(env.lookup("ADDON_OPERATOR_ATTEMPT"))
	if env.lookup("BINDING_CONTEXT_PATH") == "" {
		return nil, errors.New("BINDING_CONTEXT_PATH is not set; run the hook with the operator, or in a test with package sdktest")
	}
	for variable, into := range map[string]any{
		"BINDING_CONTEXT_PATH": &r.Elements, "VALUES_PATH": &r.Values.tree, "CONFIG_VALUES_PATH": &r.ConfigValues.tree,
	} {
		path := env.lookup(variable)
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		if err := decode(text, into); err != nil {
			return nil, fmt.Errorf("%s (%s): %w", variable, path, err)
		}
	}
	return r, nil
}

// decode decodes one JSON value. The argument into is a pointer to the variable for the result. Numbers have the type
// json.Number, which keeps the digits as written.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// write writes all outputs to their files. If an output is invalid, write returns an error and writes nothing.
func (r *Run) write(env environment) error {
	files := map[string][]byte{}
	for _, output := range []interface {
		output() (variable string, content []byte, err error)
	}{r.Values, r.ConfigValues, r.Objects, r.Metrics, r.verdict, r.converted} {
		variable, content, err := output.output()
		if err != nil {
			return err
		}
		if len(content) == 0 {
			continue
		}
		if env.lookup(variable) == "" {
			return fmt.Errorf("%s is not set, so the collected output cannot be written", variable)
		}
		files[variable] = content
	}
	for variable, content := range files {
		if err := os.WriteFile(env.lookup(variable), content, 0o600); err != nil {
			return fmt.Errorf("%s: %w", variable, err)
		}
	}
	return nil
}

// lines encodes each value as JSON on its own line.
func lines[T any](values []T) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, value := range values {
		if err := encoder.Encode(value); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

// newLog returns a logger whose format the operator parses in the output of hooks: JSON objects with time, level and
// msg.
func newLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.LevelKey {
				a.Value = slog.StringValue(strings.ToLower(a.Value.String()))
			}
			return a
		},
	}))
}
