package story

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var reviewCommands = map[string]command{
	"refused":  refused,
	"accepted": accepted,
	"keep-on":  keepOn,
	"read":     readPath,
	"unread":   unread,
	"counted":  counted,
}

// A try is the result of sending an object to the API server as a dry run.
type try struct {
	object   *unstructured.Unstructured
	warnings []string
	err      error
}

// try reads an object from a file, and sends a dry-run request to create the object.
func (w *environment) try(ts *testscript.TestScript, file string) try {
	o := &unstructured.Unstructured{}
	text := strings.ReplaceAll(ts.ReadFile(file), "NAMESPACE", w.namespace)
	if err := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096).Decode(&o.Object); err != nil {
		return try{err: err}
	}
	var t try
	var mapping *meta.RESTMapping
	if mapping, t.err = w.mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version); t.err != nil {
		w.mapper.Reset()
		return t
	}
	warned := &warnings{}
	config := rest.CopyConfig(w.config)
	config.WarningHandler = warned
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return try{err: err}
	}
	objects := client.Resource(mapping.Resource).Namespace(w.namespace)
	t.object, t.err = objects.Create(ctx(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	t.warnings = warned.all
	return t
}

// warnings collects the warnings of the API server.
type warnings struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

// HandleWarningHeader adds one warning.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

// refused implements the command "refused FILE REGEXP". It waits until the API server rejects the object in FILE with
// an error that matches REGEXP.
func refused(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("refused FILE REGEXP")
	}
	want, err := regexp.Compile(args[1])
	if err != nil {
		return err
	}
	return wait(func() error {
		t := w.try(ts, args[0])
		if t.err == nil {
			return errors.New("it is accepted")
		}
		if !want.MatchString(t.err.Error()) {
			return fmt.Errorf("it is refused for another reason: %w", t.err)
		}
		return nil
	})
}

// accepted implements the command "accepted FILE [FILTER [REGEXP]]". It waits until the API server accepts the object
// in FILE as a dry run, and prints the results of the jq filter FILTER for the returned object. If REGEXP is given, it
// waits until the returned object or the warnings also match.
func accepted(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) < 1 || len(args) > 3 {
		return usage("accepted FILE [FILTER [REGEXP]]")
	}
	want, err := regexp.Compile(append(args, "", "")[2])
	if err != nil {
		return err
	}
	var text []byte
	if err := wait(func() (err error) {
		t := w.try(ts, args[0])
		if t.err != nil {
			return t.err
		}
		if text, err = t.object.MarshalJSON(); err != nil {
			return err
		}
		if warnings := strings.Join(t.warnings, "\n"); len(args) == 3 && !want.MatchString(warnings) && !want.Match(text) {
			return fmt.Errorf("it is accepted as %s with the warnings %q", text, warnings)
		}
		return nil
	}); err != nil {
		return err
	}
	return printJSON(ts, text, append(args[1:], ".")[0])
}

// keepOn implements the command "keep-on FILE SECONDS". For SECONDS, it sends the object in FILE to the API server
// again and again, as dry runs. It fails if the API server rejects any of these requests.
func keepOn(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("keep-on FILE SECONDS")
	}
	lasts, err := time.ParseDuration(args[1] + "s")
	if err != nil {
		return err
	}
	n := 0
	for began := time.Now(); time.Since(began) < lasts; time.Sleep(glance) {
		if t := w.try(ts, args[0]); t.err != nil {
			return fmt.Errorf("request %d, %.1f s after the first: %w", n, time.Since(began).Seconds(), t.err)
		}
		n++
	}
	ts.Logf("%d requests", n)
	return nil
}

// readPath implements the command "read PATH [FILTER [REGEXP]]". It waits until the API server answers a request for
// PATH, and prints the results of the jq filter FILTER for the answer. If REGEXP is given, it waits until the answer
// also matches. NAMESPACE in PATH is replaced by the story's namespace.
func readPath(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) < 1 || len(args) > 3 {
		return usage("read PATH [FILTER [REGEXP]]")
	}
	want, err := regexp.Compile(append(args, "", "")[2])
	if err != nil {
		return err
	}
	var text []byte
	if err := wait(func() (err error) {
		if text, err = w.fetch(args[0]); err == nil && len(args) == 3 && !want.Match(text) {
			err = fmt.Errorf("the answer is %s", text)
		}
		return err
	}); err != nil {
		return err
	}
	return printJSON(ts, text, append(args[1:], ".")[0])
}

// unread implements the command "unread PATH REGEXP". It waits until the API server answers a request for PATH with an
// error that matches REGEXP.
func unread(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("unread PATH REGEXP")
	}
	want, err := regexp.Compile(args[1])
	if err != nil {
		return err
	}
	return wait(func() error {
		_, err := w.fetch(args[0])
		if err == nil {
			return errors.New("it can be read")
		}
		if !want.MatchString(err.Error()) {
			return fmt.Errorf("it cannot be read for another reason: %w", err)
		}
		return nil
	})
}

// counted implements the command "counted REGEXP". It waits until REGEXP matches at the beginning of a line of the
// operator's /metrics.
func counted(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 1 || w.operator == nil {
		return usage("counted REGEXP, while an operator runs")
	}
	want, err := regexp.Compile("(?m)^" + args[0])
	if err != nil {
		return err
	}
	client := http.Client{Timeout: patience}
	return wait(func() error {
		answer, err := client.Get("http://" + w.operator.addr + "/metrics")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && !want.Match(text) {
			err = errors.New("no line matches")
		}
		return err
	})
}

func (w *environment) fetch(path string) ([]byte, error) {
	within, cancel := context.WithTimeout(ctx(), patience)
	defer cancel()
	answer := w.kube.CoreV1().RESTClient().Get().AbsPath(strings.ReplaceAll(path, "NAMESPACE", w.namespace)).Do(within)
	text, err := answer.Raw()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	return text, nil
}
