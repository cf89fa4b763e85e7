package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/e2e/cluster"
)

// failing matches the description of the failing task. Between two attempts, the node of the task is module-run. During
// an attempt, the node is module-beforehelm.
var failing = regexp.MustCompile(`module-(run:main:second|beforehelm:main:second:1 of 1):failures \d`)

// debugRoutes checks the responses of the debug socket, in each format, for a sample whose second
// module fails.
func (s *fixture) debugRoutes(t *testing.T) {
	t.Helper()
	if info, err := os.Stat(s.path("socket")); err != nil {
		t.Error(err)
	} else if info.Mode().Perm() != 0o600 {
		t.Errorf("others can use the socket: %s", info.Mode())
	}
	socket := s.socket()
	get := func(path string) string { return answerOf(t, socket.Get, "http://unix"+path, http.StatusOK) }
	for _, route := range []string{
		"/queue/main", "/queue/list", "/config/list", "/global/list", "/global/values", "/global/config", "/global/patches",
		"/global/snapshots", "/module/list", "/module/first/config", "/module/first/values", "/module/first/patches",
		"/module/first/snapshots", "/module/resource-monitor", "/hook/list", "/hook/hooks/sees.sh/snapshots",
	} {
		timed := strings.HasPrefix(route, "/queue/") || strings.HasPrefix(route, "/config/") // these pages contain durations
		inJSON, inYAML := get(route+".json"), get(route+".yaml")
		for again := get(route + ".json"); !timed && again != inJSON; again = get(route + ".json") {
			inJSON, inYAML = again, get(route+".yaml") // the module failed once more between the requests
		}
		var asJSON, asYAML any
		if err := json.Unmarshal([]byte(inJSON), &asJSON); err != nil {
			t.Errorf("%s.json: %v", route, err)
		}
		if err := yaml.Unmarshal([]byte(inYAML), &asYAML); err != nil {
			t.Errorf("%s.yaml: %v", route, err)
		}
		if timed {
			continue
		}
		if diff := cmp.Diff(asJSON, asYAML); diff != "" {
			t.Errorf("%s as JSON and as YAML (-json +yaml):\n%s", route, diff)
		}
	}
	for _, route := range []string{"/queue/main", "/queue/list", "/module/list", "/global/list", "/hook/list", "/config/list"} {
		if got := get(route + ".text"); strings.TrimSpace(got) == "" || strings.HasPrefix(got, "{") {
			t.Errorf("%s.text is %q", route, got)
		}
	}
	s.queueShape(t, get("/queue/list.json?showEmpty=true"))
	for path, code := range map[string]int{
		"/module/none/values.json": http.StatusNotFound, "/module/first/nothing.json": http.StatusNotFound, "/nowhere": http.StatusNotFound,
		"/module/first/values.png": http.StatusBadRequest,
	} {
		answerOf(t, socket.Get, "http://unix"+path, code)
	}
	for form, code := range map[string]int{"name=log.level&value=loud": http.StatusBadRequest, "name=log.level&value=info": http.StatusOK} {
		post := func(to string) (*http.Response, error) {
			fields, err := url.ParseQuery(form)
			if err != nil {
				return nil, err
			}
			return socket.PostForm(to, fields)
		}
		answerOf(t, post, "http://unix/config/set", code)
	}
}

// socket returns an HTTP client that connects to the debug socket.
func (s *fixture) socket() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.path("socket"))
	}}}
}

// ask returns the body of the debug socket's response for path; empty if the operator does not
// respond.
func (s *fixture) ask(path string) string {
	r, err := s.socket().Get("http://unix" + path)
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	return string(b)
}

// publicPort checks that the port for health and metrics serves no debug pages, and that its pages do not contain the
// output of hooks.
func (s *fixture) publicPort(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/", "/queue", "/queue/list.json", "/discovery", "/debug/pprof/", "/debug/pprof/heap", "/module/list.json"} {
		answerOf(t, http.Get, s.url(path), http.StatusNotFound)
	}
	for _, path := range []string{"/readyz", "/status/converge", "/metrics", "/metrics/hooks"} {
		if got := s.get(path); strings.Contains(got, "cannot reach the thing") {
			t.Errorf("%s shows what a hook printed: %s", path, got)
		}
	}
}

// debugPort checks that the debug port at address shows queues without the output of hooks, changes
// nothing, and responds only to names of this host.
func (s *fixture) debugPort(t *testing.T, address string) {
	t.Helper()
	get := func(path string) string { return answerOf(t, http.Get, "http://"+address+path, http.StatusOK) }
	for path, want := range map[string]string{
		"/": "/queue", "/discovery": strings.Join(debugapi.Paths, "\n") + "\n", "/queue": "failures", "/queue?output=json": "failures",
		"/queue/list.json": "failures", "/debug/pprof/": "goroutine",
	} {
		if got := get(path); !strings.Contains(got, want) || strings.Contains(got, "cannot reach the thing") {
			t.Errorf("%s on the debug port is\n%s", path, got)
		}
	}
	if got := get("/queue/main.text"); !failing.MatchString(got) || strings.Contains(got, "cannot reach the thing") {
		t.Errorf("the main queue on the debug port is\n%s", got)
	}
	for _, path := range []string{"/module/first/values.json", "/workflow/inspect.json", "/store/dump", "/nowhere"} {
		answerOf(t, http.Get, "http://"+address+path, http.StatusNotFound)
	}
	post := func(to string) (*http.Response, error) { return http.Post(to, "", nil) }
	answerOf(t, post, "http://"+address+"/task/1-1/retry", http.StatusNotFound)
	foreign := func(to string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, http.NoBody)
		if err != nil {
			return nil, err
		}
		r.Host = "rebound.example.com"
		return http.DefaultClient.Do(r)
	}
	answerOf(t, foreign, "http://"+address+"/queue", http.StatusForbidden)
}

// TestATakenDebugPortIsAWarning starts an operator whose debug port is in use by another listener.
// The operator must log a warning, and start.
func TestATakenDebugPortIsAWarning(t *testing.T) {
	c := cluster.Start(t)
	newFixture(t).warnsOfTakenPort(c.Kubeconfig(), c.Namespace(t), "--debug-http-addr")
}

// warnsOfTakenPort sets a flag of the operator to an address that another listener uses. warnsOfTakenPort expects that
// the operator starts, and logs a warning.
func (s *fixture) warnsOfTakenPort(kubeconfig, namespace, flag string) {
	s.t.Helper()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	defer taken.Close()
	s.file("modules/values.yaml", "")
	s.start(kubeconfig, namespace, flag, taken.Addr().String())
	s.converged()
	if log := s.log.String(); !strings.Contains(log, "choose another address with "+flag) {
		s.t.Errorf("no warning in the log:\n%s", log)
	}
}

// queueShape checks the keys and values of the JSON that the command "queue list" prints.
func (s *fixture) queueShape(t *testing.T, text string) {
	t.Helper()
	var dump struct {
		Active []struct {
			Name       string `json:"name"`
			TasksCount int    `json:"tasksCount"`
			Status     string `json:"status"`
			Tasks      []struct {
				Index       int    `json:"index"`
				Description string `json:"description"`
			} `json:"tasks"`
		} `json:"active"`
		Empty []struct {
			Name string `json:"name"`
		} `json:"empty"`
		Summary struct {
			MainQueueTasks int `json:"mainQueueTasks"`
			OtherQueues    struct {
				Active int `json:"active"`
				Empty  int `json:"empty"`
				Tasks  int `json:"tasks"`
			} `json:"otherQueues"`
			TotalTasks int `json:"totalTasks"`
		} `json:"summary"`
	}
	if err := json.Unmarshal([]byte(text), &dump); err != nil || len(dump.Active) != 1 || len(dump.Active[0].Tasks) == 0 {
		t.Fatalf("%v of\n%s", err, text)
	}
	main, sum := dump.Active[0], dump.Summary
	description := failing.FindStringIndex(main.Tasks[0].Description)
	if main.Name != "main" || main.Status == "" || main.TasksCount != len(main.Tasks) || main.Tasks[0].Index != 1 ||
		description == nil || description[0] != 0 {
		t.Errorf("the main queue is %+v", main)
	}
	if len(dump.Empty) != 1 || dump.Empty[0].Name != "side" {
		t.Errorf("empty are %+v", dump.Empty)
	}
	if sum.MainQueueTasks != main.TasksCount || sum.TotalTasks != main.TasksCount || sum.OtherQueues.Empty != 1 || sum.OtherQueues.Tasks != 0 {
		t.Errorf("the summary is %+v", sum)
	}
}

// answerOf returns the body of the response to a request that the function ask sends to a URL. The
// test fails if the response does not have the status code.
func answerOf(t *testing.T, ask func(string) (*http.Response, error), from string, code int) string {
	t.Helper()
	r, err := ask(from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != code || code != http.StatusOK && strings.TrimSpace(string(body)) == "" {
		t.Error(fmt.Errorf("%s: %s, not %d: %q, %w", from, r.Status, code, body, err))
	}
	return string(body)
}
