package cluster_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"addon-operator/e2e/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }

func client(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// seen reads events until the given function returns true for the object of an event. seen fails the test after a
// minute, or at once if err is not nil.
func seen[T any](t *testing.T, events watch.Interface, err error, wanted func(T) bool) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	late := time.After(time.Minute)
	for {
		select {
		case event := <-events.ResultChan():
			object, ok := event.Object.(T)
			if !ok {
				t.Fatalf("the watch ended with %v %v", event.Type, event.Object)
			}
			if wanted(object) {
				return
			}
		case <-late:
			t.Fatal("not seen within a minute")
		}
	}
}

func podsOf(name string, restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			RestartPolicy: restart,
			Containers:    []corev1.Container{{Name: "main", Image: "example.com/" + name}},
		},
	}
}

func TestDeploymentBecomesAvailable(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	deployments := client(t, c.Config()).AppsV1().Deployments(c.Namespace(t))

	replicas := int32(2)
	_, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: podsOf("web", corev1.RestartPolicyAlways),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := deployments.Watch(t.Context(), metav1.ListOptions{})
	seen(t, events, err, func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == replicas })
}

func TestJobCompletes(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	jobs := client(t, c.Config()).BatchV1().Jobs(c.Namespace(t))

	_, err := jobs.Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "once"},
		Spec:       batchv1.JobSpec{Template: podsOf("once", corev1.RestartPolicyNever)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := jobs.Watch(t.Context(), metav1.ListOptions{})
	seen(t, events, err, func(j *batchv1.Job) bool { return j.Status.CompletionTime != nil })
}

func TestDeletedPodIsGoneAtOnce(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	pods := client(t, c.Config()).CoreV1().Pods(c.Namespace(t))

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: podsOf("p", corev1.RestartPolicyAlways).Spec}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	events, err := pods.Watch(t.Context(), metav1.ListOptions{})
	seen(t, events, err, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })

	if err := pods.Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	left, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 0 {
		t.Errorf("%d pods are left after the only one was deleted (%v)", len(left.Items), err)
	}
}

func TestEveryNamespaceIsNew(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	first, second := c.Namespace(t), c.Namespace(t)
	if first == second {
		t.Errorf("got namespace %s twice", first)
	}
	if want := "t-everynamespaceisnew-"; !strings.HasPrefix(first, want) {
		t.Errorf("got namespace %s, want its name to begin with %s", first, want)
	}
}

func TestKilledClusterComesBackAsItWas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before := cluster.Launch(t, dir)
	cfg, namespace := before.Config(), before.Namespace(t)
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"key": "value"}}
	_, err := client(t, cfg).CoreV1().ConfigMaps(namespace).Create(t.Context(), configMap, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before.Kill()

	after := cluster.Launch(t, dir)
	for when, cfg := range map[string]*rest.Config{"before": cfg, "after": after.Config()} {
		got, err := client(t, cfg).CoreV1().ConfigMaps(namespace).Get(t.Context(), "kept", metav1.GetOptions{})
		if err != nil || got.Data["key"] != "value" {
			t.Errorf("with the credentials from %s the kill: got %v, %v; want the ConfigMap as it was", when, got.Data, err)
		}
	}

	if err := after.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ready")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a stopped control plane left its file ready (%v)", err)
	}
}

// stay is an environment variable that is set in the child process of [TestClusterEndsWithTheProcessThatStartedIt].
// The child then starts a cluster and does not end by itself.
const stay = "CLUSTER_TEST_STAY"

func TestClusterEndsWithTheProcessThatStartedIt(t *testing.T) {
	t.Parallel()
	if os.Getenv(stay) != "" {
		fmt.Println(stay, cluster.Start(t).Kubeconfig())
		select {}
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), stay+"=1")
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var dir string
	lines := bufio.NewScanner(output)
	for dir == "" && lines.Scan() {
		if path, found := strings.CutPrefix(lines.Text(), stay+" "); found {
			dir = filepath.Dir(path)
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // "signal: killed"
	if dir == "" {
		t.Fatal("the child process started no cluster")
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Since(began) > 5*time.Minute {
			t.Fatalf("%s is still there 5 minutes after the process that started the control plane was killed", dir)
		}
	}
}
