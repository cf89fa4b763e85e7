package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/e2e/cluster"
	"addon-operator/store"
)

// sample returns a fixture with a working module, a module with a failing hook, and a global hook.
func sample(t *testing.T) *fixture {
	t.Helper()
	s := newFixture(t)
	s.file("modules/values.yaml", "firstEnabled: true\nsecondEnabled: true\nfirst: {password: hunter2, replicas: 2}\n")
	s.file("modules/010-first/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\ndata: {a: \"{{ .Values.first.replicas }}\"}\n")
	s.file("modules/010-first/hooks/sees.sh", hookText(
		`{"configVersion":"v1","beforeHelm":5,"kubernetes":[{"name":"secrets","kind":"Secret","queue":"side","nameSelector":{"matchNames":["hidden"]}}]}`,
		`echo '{"op":"add","path":"/first/token","value":"tok-123"}' >> $VALUES_JSON_PATCH_PATH`))
	s.file("modules/020-second/hooks/fails.sh", hookText(`{"configVersion":"v1","beforeHelm":1}`, "echo ask with password=hunter2; echo cannot reach the thing >&2; exit 3"))
	s.file("global-hooks/watch.sh", hookText(`{"configVersion":"v1","onStartup":1}`, "true"))
	return s
}

func client(t *testing.T, c *cluster.Cluster) kubernetes.Interface {
	t.Helper()
	k, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestEveryVerbShowsWhatTheOperatorDoes runs the commands with an operator whose second module fails. Then the test
// stops the operator, and runs commands with the store. The scripts in testdata have the expected output.
func TestEveryVerbShowsWhatTheOperatorDoes(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	if _, err := client(t, c).CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "hidden"}, StringData: map[string]string{"a": "plain-secret"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := sample(t)
	debug := net.JoinHostPort(freeAddress(t))
	s.start(c.Kubeconfig(), namespace, "--debug-http-addr", debug)
	s.until("the second module fails", func() bool { return strings.Contains(s.ask("/queue"), "cannot reach the thing") })
	s.until("the Secret is seen", func() bool {
		return strings.Contains(s.get("/metrics"), `kube_snapshot_objects{binding="secrets",hook="hooks/sees.sh",module="first",queue="side"} 1`)
	})
	if got := s.get("/readyz"); got != "Startup converge in progress\n" {
		t.Errorf("/readyz: %q", got)
	}
	setup := func(e *testscript.Env) error {
		e.Setenv(settings.SocketVariable, s.path("socket"))
		e.Setenv("STORE", s.path("store.db"))
		e.Setenv("MODULES", s.path("modules"))
		e.Setenv("USER", "alice")
		// In this time zone it is noon, so that no day ends during the scripts, and all times are shown without a date.
		e.Setenv("TZ", fmt.Sprintf("Etc/GMT%+d", time.Now().UTC().Hour()-12))
		return nil
	}
	run := func(scripts string) {
		// The scripts are parallel, so testscript.Run returns before they end. t.Run waits for them.
		t.Run(scripts, func(t *testing.T) { testscript.Run(t, testscript.Params{Dir: "testdata/" + scripts, Setup: setup}) })
		if t.Failed() {
			t.FailNow()
		}
	}
	s.debugRoutes(t)
	s.publicPort(t)
	s.debugPort(t, debug)
	run("live")
	run("change")
	s.converged() // the script in testdata/change has skipped the failing task, so that the converge can end
	s.until("the converge is counted", func() bool {
		return strings.Contains(s.get("/metrics"), "addon_operator_convergence_total{")
	})
	s.routes(t)
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	run("stopped")
}

// routes checks the routes for probes, scrapers and people.
func (s *fixture) routes(t *testing.T) {
	t.Helper()
	for path, want := range map[string]string{
		"/healthz":         "ok\n",
		"/readyz":          "Startup converge done.\n",
		"/status/converge": "STARTUP_CONVERGE_DONE\nCONVERGE_WAIT_TASK\n",
		"/status/converge?output=json": "{\n  \"CONVERGE_IN_PROGRESS\": null,\n  \"CONVERGE_WAIT_TASK\": true,\n  \"STARTUP_CONVERGE_DONE\": true,\n" +
			"  \"STARTUP_CONVERGE_IN_PROGRESS\": null,\n  \"STARTUP_CONVERGE_NOT_STARTED\": false\n}\n",
		"/metrics/hooks": "",
		"/nowhere":       "404 page not found\n",
	} {
		if d := cmp.Diff(want, s.get(path)); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
	for path, want := range map[string][]string{
		"/metrics": {
			"addon_operator_live_ticks ", `addon_operator_convergence_total{activation="OperatorStartup"} 1`,
			`addon_operator_module_run_errors_total{module="second"}`, `addon_operator_tasks_queue_length{queue="main"} 0`,
			`addon_operator_module_hook_success_total{activation="OperatorStartup",binding="beforeHelm",hook="hooks/sees.sh",module="first",queue="main"}`,
			`addon_operator_global_hook_success_total{activation="OperatorStartup",binding="onStartup",hook="watch.sh",queue="main"} 1`,
			`addon_operator_helm_operation_seconds_count{activation="OperatorStartup",module="first",operation="upgrade"} 1`,
			`addon_operator_module_run_seconds_count{activation="OperatorStartup",module="first"}`,
			`addon_operator_mm_module_enabled{module="first",version=""} 1`,
			"addon_operator_store_size_bytes ", `addon_operator_tasks_ended_total{node="module-beforehelm",state="skipped"} 1`,
		},
	} {
		got := s.get(path)
		for _, line := range want {
			if !strings.Contains(got, line) {
				t.Errorf("%s does not hold %q", path, line)
			}
		}
	}
}

func TestARefusedConfigMapIsSaidInAnEventAndCountedOnce(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	k := client(t, c)
	s := newFixture(t)
	s.file("modules/values.yaml", "")
	s.start(c.Kubeconfig(), namespace)
	s.converged()
	if _, err := k.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "addon-operator"}, Data: map[string]string{"fooEnabled": "perhaps"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.until("there is an Event", func() bool {
		events, err := k.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=ConfigRefused"})
		return err == nil && len(events.Items) == 1 && events.Items[0].InvolvedObject.Name == "addon-operator" &&
			strings.Contains(events.Items[0].Message, "fooEnabled")
	})
	if got := s.get("/metrics"); !strings.Contains(got, "addon_operator_config_values_errors_total 1\n") {
		t.Error("it is not counted once")
	}
}

func TestStoreOfAnotherClusterIsRenamed(t *testing.T) {
	c := cluster.Start(t)
	s := newFixture(t)
	id := s.storeOfAnotherCluster()
	// The operator must rename the store of the other cluster. The first possible name is the name
	// of the file below. This file exists, so the operator must choose another name.
	s.file("store.db.cluster-11111111.1", "kept")
	s.start(c.Kubeconfig(), c.Namespace(t))
	s.converged()
	if !strings.Contains(s.log.String(), "belongs to another cluster") {
		t.Error("nothing is said of it")
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(s.path("store.db.cluster-11111111.1")); err != nil || string(b) != "kept" {
		t.Errorf("a file was overwritten: %q, %v", b, err)
	}
	old, err := store.OpenReadOnly(s.path("store.db.cluster-11111111.2"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if old.ID() != id {
		t.Error("the renamed file is another store")
	}
	// The new store belongs to this cluster, so the next start keeps it.
	s.start(c.Kubeconfig(), c.Namespace(t))
	s.converged()
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob(s.path("store.db.cluster-*")); len(found) != 2 {
		t.Errorf("renamed stores: %q", found)
	}
}

func TestAnOperatorStartsWithoutTheAPIServerAndGoesOnWhenItAnswers(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	s := newFixture(t)
	listen := s.lateServer(c)
	s.start(s.path("kubeconfig"), namespace)
	s.until("it says what it waits for", func() bool {
		return strings.Contains(s.get("/readyz"), "connection refused") && strings.Contains(s.log.String(), "continues when it responds")
	})
	listen()
	s.converged()
	s.until("the store belongs to the cluster", func() bool { return strings.Contains(s.log.String(), "the API server answers") })
}

func TestAStoreOfAnotherClusterIsNotUsedIfTheAPIServerAnswersLate(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	s := newFixture(t)
	s.storeOfAnotherCluster()
	listen := s.lateServer(c)
	s.fails = true
	s.start(s.path("kubeconfig"), namespace)
	s.until("it does not know the cluster", func() bool { return strings.Contains(s.log.String(), "continues when it responds") })
	listen()
	s.until("the operator has ended", func() bool { return s.get("/healthz") == "" })
	if err := s.end(); err == nil || !strings.Contains(err.Error(), "belongs to cluster 11111111-2222") {
		t.Errorf("the operator ended with the error %v", err)
	}
	if strings.Contains(s.log.String(), "operator started") {
		t.Error("the operator worked with the store")
	}
}

func TestAnOperatorWorksIfItCannotWriteTheIdentityOfItsContainer(t *testing.T) {
	c := cluster.Start(t)
	s := newFixture(t)
	db := makeStore(t, s.path("store.db"))
	id := db.ID()
	closeStore(t, db)
	if err := os.Mkdir(string(containerFile(s.path("tmp"), id))+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	s.start(c.Kubeconfig(), c.Namespace(t))
	s.converged()
	if !strings.Contains(s.log.String(), "cannot write the identity of the container") {
		t.Error("the failure is not logged")
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

// storeOfAnotherCluster creates a store that belongs to cluster 11111111-2222, and returns its ID.
func (s *fixture) storeOfAnotherCluster() string {
	s.t.Helper()
	db := makeStore(s.t, s.path("store.db"))
	if err := db.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.StartupKey(), store.Startup{Cluster: "11111111-2222", Converged: 7, StartRun: 7})
	}); err != nil {
		s.t.Fatal(err)
	}
	closeStore(s.t, db)
	return db.ID()
}

// lateServer writes a kubeconfig with the address of a server that refuses connections until the returned function is
// called. After that, the server accepts connections, and forwards them to the API server of c.
func (s *fixture) lateServer(c *cluster.Cluster) (listen func()) {
	s.t.Helper()
	server, err := url.Parse(c.Config().Host)
	if err != nil {
		s.t.Fatal(err)
	}
	port, accept := reservePort(s.t)
	text, err := os.ReadFile(c.Kubeconfig())
	if err != nil {
		s.t.Fatal(err)
	}
	s.file("kubeconfig", strings.ReplaceAll(string(text), ":"+server.Port(), ":"+strconv.Itoa(port)))
	return func() { forward(s.t, accept(), server.Host) }
}

// reservePort returns a port of 127.0.0.1 that refuses connections until listen is called. The system gives the port to
// no other process.
func reservePort(t *testing.T) (port int, listen func() net.Listener) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "reserved port")
	t.Cleanup(func() { _ = file.Close() })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	address, ok := bound.(*syscall.SockaddrInet4)
	if err != nil || !ok {
		t.Fatalf("the address is %v (%v)", bound, err)
	}
	return address.Port, func() net.Listener {
		t.Helper()
		if err := syscall.Listen(fd, syscall.SOMAXCONN); err != nil {
			t.Fatal(err)
		}
		l, err := net.FileListener(file)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// forward accepts connections on the listener l, and forwards their bytes to and from the server at
// the given address.
func forward(t *testing.T, l net.Listener, to string) {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", to)
			if err != nil {
				from.Close()
				continue
			}
			go func() { _, _ = io.Copy(there, from); there.Close() }()
			go func() { _, _ = io.Copy(from, there); from.Close() }()
		}
	}()
}

func TestAHookThatRunsAtTheStopMayEndAndNothingNewBegins(t *testing.T) {
	c := cluster.Start(t)
	s := newFixture(t)
	slow := `echo begun >> ` + s.path("ran") + `; until [[ -e ` + s.path("stopping") + ` ]]; do sleep 0.05; done; echo ended >> ` + s.path("ran")
	s.file("global-hooks/1.sh", hookText(`{"configVersion":"v1","onStartup":1}`, slow))
	s.file("global-hooks/2.sh", hookText(`{"configVersion":"v1","onStartup":2}`, slow))
	s.start(c.Kubeconfig(), c.Namespace(t))
	ran := func() string { b, _ := os.ReadFile(s.path("ran")); return string(b) }
	s.until("the hook runs", func() bool { return ran() == "begun\n" })
	ended := make(chan error, 1)
	go func() { ended <- s.end() }()
	s.until("no new task starts", func() bool { return strings.Contains(s.ask("/workflow/timeline.text"), " stopped ") })
	s.file("stopping", "")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := ran(); got != "begun\nended\n" {
		t.Errorf("the hooks did: %q", got)
	}
	db, err := store.OpenReadOnly(s.path("store.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *store.Tx) error {
		done := 0
		for r, err := range store.RecordsOf(tx, 1) {
			if err != nil {
				return err
			}
			if r.Subject.Hook != "" && r.State == store.Done {
				done++
			}
		}
		if done != 1 {
			t.Errorf("%d hooks are done, want the one that ran", done)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestASecondSignalEndsTheProcessAtOnce(t *testing.T) {
	c := cluster.Start(t)
	s := newFixture(t)
	s.file("global-hooks/slow.sh", hookText(`{"configVersion":"v1","onStartup":1}`, `echo $$ > `+s.path("pid")+`; exec sleep 60`))
	cmd := process(t, append([]string{"start"}, s.flags(c.Kubeconfig(), c.Namespace(t))...)...)
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.until("the hook runs", func() bool { _, err := os.Stat(s.path("pid")); return err == nil })
	// This test runs the operator in a process of its own, because the client library reports
	// requests only to the first listener of a process.
	if !strings.Contains(s.get("/metrics"), "addon_operator_kubernetes_client_request_result_total{") {
		t.Error("requests to the API server are not counted")
	}
	send(t, cmd, syscall.SIGTERM)
	s.until("it stops", func() bool { return strings.Contains(s.log.String(), "operator is stopping") })
	began := time.Now()
	send(t, cmd, syscall.SIGTERM)
	if err := cmd.Wait(); err == nil {
		t.Error("it ended as if nothing had been cut off")
	}
	if took := time.Since(began); took > 12*time.Second { // at a shutdown with one signal, a hook gets SIGTERM after 15 s
		t.Errorf("it took %s", took)
	}
	s.until("its hook is gone", func() bool {
		b, _ := os.ReadFile(s.path("pid"))
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil && syscall.Kill(pid, 0) != nil
	})
}

func send(t *testing.T, cmd *exec.Cmd, s os.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func TestOldHistoryIsForgottenInPiecesAndThreeSnapshotsStay(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db, err := store.Open(s.path("store.db"), store.Options{Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for run := range uint64(3) {
		if err := db.Update(func(tx *store.Tx) error {
			for range 2*trimPiece/3 + 1 {
				if err := store.AddRecord(tx, store.Record{Run: run + 1, Node: "n", State: store.Done}); err != nil {
					return err
				}
			}
			return store.Save(tx, store.RunKey(run+1), store.Run{ID: run + 1, Ended: now.Add(time.Duration(run) * 24 * time.Hour)})
		}); err != nil {
			t.Fatal(err)
		}
	}
	m := &maintenance{db: db, path: s.path("store.db"), historyAge: 24 * time.Hour, historyBytes: 64 << 20}
	now = now.Add(2 * 24 * time.Hour)
	if err := m.trim(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *store.Tx) error {
		var left []uint64
		for w, err := range store.RunsBackwards(tx) {
			if err != nil {
				return err
			}
			left = append(left, w.ID)
		}
		if d := cmp.Diff([]uint64{3, 2}, left); d != "" {
			t.Errorf("runs left (-want +got):\n%s", d)
		}
		for range store.RecordsOf(tx, 1) {
			t.Error("a record of a forgotten run is left")
			break
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		s.file("store.db.snapshot-2025010"+strconv.Itoa(i)+"T000000Z", "")
	}
	if err := m.snapshot(); err != nil {
		t.Fatal(err)
	}
	left, err := m.snapshots()
	if err != nil || len(left) != snapshotsKept || left[0] != s.path("store.db.snapshot-20250103T000000Z") {
		t.Errorf("snapshots %q, %v", left, err)
	}
	written := left[2]
	for i := range 3 { // as if the clock was ahead when these snapshots were written
		s.file("store.db.snapshot-2099010"+strconv.Itoa(i+1)+"T000000Z", "")
	}
	// The name of a snapshot has the time in seconds, and the next snapshot must have a new name.
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	if err := m.snapshot(); err != nil {
		t.Fatal(err)
	}
	left, err = m.snapshots()
	if err != nil || len(left) != snapshotsKept || left[0] != s.path("store.db.snapshot-20250104T000000Z") || left[1] != written {
		t.Errorf("after snapshots with later names, snapshots %q, %v", left, err)
	}
	copied, err := store.OpenReadOnly(left[2], store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	if err := copied.Check(); err != nil {
		t.Error(err)
	}
}
