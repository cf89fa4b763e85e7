package samples_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"addon-operator/e2e/cluster"
	"addon-operator/e2e/operator"
)

// A sample has an operator with the sample modules and global hooks, and creates the objects that they watch.
type sample struct {
	t         *testing.T
	client    kubernetes.Interface
	env       operator.Environment
	process   *operator.Process
	namespace string
	team      string // namespace of a team
}

// newSample starts an operator with the sample modules and global hooks, and waits until it has converged.
func newSample(t *testing.T) *sample {
	t.Helper()
	s, _ := prepareSample(t)
	s.certificate("www", time.Now().AddDate(0, 0, 5))
	s.process = start(t, s.env)
	return s
}

// prepareSample prepares the environment of an operator with the sample modules and global hooks, but does not start
// the operator.
func prepareSample(t *testing.T) (*sample, *cluster.Cluster) {
	t.Helper()
	c := cluster.Start(t)
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	s := &sample{t: t, client: client, namespace: c.Namespace(t)}
	s.team = s.newTeam("red")
	s.create("e2e/sample/config.yaml", s.namespace)
	s.env = newEnvironment(t, c, s.namespace)
	return s, c
}

// newTeam creates a namespace with the label "team", and returns its name.
func (s *sample) newTeam(team string) string {
	s.t.Helper()
	name := s.namespace + "-" + team
	_, err := s.client.CoreV1().Namespaces().Create(s.t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		err := s.client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			s.t.Error(err)
		}
	})
	return name
}

// create creates the ConfigMap of the manifest at path, which is relative to the root of the repository.
func (s *sample) create(path, namespace string) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		s.t.Fatal(err)
	}
	var object corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.client.CoreV1().ConfigMaps(namespace).Create(s.t.Context(), &object, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// certificate creates a ConfigMap in the namespace of the team. The samples treat it as a certificate that expires at
// notAfter.
func (s *sample) certificate(name string, notAfter time.Time) {
	s.t.Helper()
	_, err := s.client.CoreV1().ConfigMaps(s.team).Create(s.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"addons.example.com/certificate": ""}},
		Data:       map[string]string{"notAfter": notAfter.UTC().Format(time.RFC3339)},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// configure sets keys of the operator's ConfigMap. A nil value removes the key.
func (s *sample) configure(data map[string]any) {
	s.t.Helper()
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = s.client.CoreV1().ConfigMaps(s.namespace).Patch(s.t.Context(), "addon-operator", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// section returns the parsed section with this key in the operator's ConfigMap.
func (s *sample) section(key string) (map[string]any, error) {
	object, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(s.t.Context(), "addon-operator", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, yaml.Unmarshal([]byte(object.Data[key]), &out)
}

// text returns the value of a key in the ConfigMap with this name.
func (s *sample) text(name, key string) (string, error) {
	object, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return object.Data[key], nil
}

// shows returns an error if the page index.html in the ConfigMap with this name lacks one of the given texts.
func (s *sample) shows(name string, texts ...string) error {
	page, err := s.text(name, "index.html")
	if err != nil {
		return err
	}
	for _, text := range texts {
		if !strings.Contains(page, text) {
			return fmt.Errorf("page %s does not say %q:\n%s", name, text, page)
		}
	}
	return nil
}

// logged waits for a line of the operator's log that contains all texts.
func (s *sample) logged(texts ...string) {
	s.t.Helper()
	eventually(s.t, "a line of the log with "+strings.Join(texts, " and "), func() error {
	lines:
		for line := range strings.Lines(s.env.Log()) {
			for _, text := range texts {
				if !strings.Contains(line, text) {
					continue lines
				}
			}
			return nil
		}
		return errors.New("there is none")
	})
}

// counts returns an error if no line of /metrics/hooks contains all texts.
func (s *sample) counts(texts ...string) error {
	page, err := get(s.t, s.process, "/metrics/hooks")
	if err != nil {
		return err
	}
	for line := range strings.Lines(page) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			return nil
		}
	}
	return fmt.Errorf("no line has all of %q in\n%s", texts, page)
}

// get returns the body that the operator's HTTP server returns for path.
func get(t *testing.T, p *operator.Process, path string) (string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL()+path, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	return string(page), err
}

// revision returns the newest revision of a Helm release. revision returns 0 if the release does not exist.
func (s *sample) revision(release string) (int, error) {
	secrets, err := s.client.CoreV1().Secrets(s.namespace).List(s.t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + release})
	newest := 0
	for i := range secrets.Items {
		n, err := strconv.Atoi(secrets.Items[i].Labels["version"])
		if err != nil {
			return 0, err
		}
		newest = max(newest, n)
	}
	return newest, err
}

// gone returns nil if err says that an object does not exist. Otherwise it returns an error, also if err is nil.
func gone(err error) error {
	if err == nil {
		return errors.New("it is there")
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// TestSamplesDoWhatTheySay checks in one long scenario what the samples do. Each part continues with the cluster and
// the operator of the part before it.
func TestSamplesDoWhatTheySay(t *testing.T) {
	s := newSample(t)
	s.converged()
	s.reactsToTheCluster()
	s.reactsToTheClock()
	s.heals()
	s.switchesOffWhatFails()
	s.rememberedAfterRestart()
}

// converged checks the state after a start: all hooks have run, all charts are installed, and the further runs that
// are caused by changed values have ended.
func (s *sample) converged() {
	t := s.t
	t.Helper()
	global, err := s.section("global")
	if err != nil {
		t.Fatal(err)
	}
	id, ok := global["installationId"].(string)
	if !ok {
		t.Fatalf("10-installation-id.sh has put no id into the ConfigMap: %v", global)
	}
	web, err := s.section("web")
	if err != nil {
		t.Fatal(err)
	}
	if _, old := web["instances"]; old || web["replicas"] != 2.0 {
		t.Errorf("rename-settings.sh has left %v, want replicas 2 and no instances", web)
	}
	deployment, err := s.client.AppsV1().Deployments(s.namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := *deployment.Spec.Replicas; n != 2 {
		t.Errorf("web has %d replicas, want 2", n)
	}
	if n, err := s.revision("web"); err != nil || n != 2 {
		t.Errorf("release web is at revision %d, %v; want 2, because installed.sh changes values once", n, err)
	}
	if err := s.shows("web-page", "<h1>Hello</h1>", "Installation "+id); err != nil {
		t.Error(err)
	}
	if _, err := s.client.CoreV1().ResourceQuotas(s.team).Get(t.Context(), "team-red", metav1.GetOptions{}); err != nil {
		t.Errorf("module team-quotas, which 20-teams.sh enables: %v", err)
	}
	eventually(t, "90-pages.sh lists the page of web, and all modules are reloaded", func() error {
		return s.shows("status-page", "web in "+s.namespace, "Modules: web, team-quotas, certificates, status-page")
	})
	eventually(t, "the hook in Go lists the images of all Deployments", func() error {
		used, err := s.text("images", "used")
		if err == nil && !strings.Contains(used, "nginx") {
			err = fmt.Errorf("it lists %q", used)
		}
		return err
	})
	s.logged("images are collected", `"hook_deployments":`)
	status, err := s.section("statusPage")
	if err != nil {
		t.Fatal(err)
	}
	if path, err := s.text("status-page", "path"); err != nil || path != fmt.Sprint("/status-", status["slug"]) {
		t.Errorf("the status page is at %q, %v; the ConfigMap says slug %v", path, err, status["slug"])
	}
	s.logged("certificate expires", s.team+"/www", `"hook_daysLeft":4`)
	s.logged("certificates are known")
}

func (s *sample) reactsToTheCluster() {
	t := s.t
	t.Helper()
	blue := s.newTeam("blue")
	eventually(t, "a quota for a new team", func() error {
		_, err := s.client.CoreV1().ResourceQuotas(blue).Get(t.Context(), "team-blue", metav1.GetOptions{})
		return err
	})
	s.certificate("mail", time.Now().AddDate(0, 0, 2))
	s.logged("certificate expires", s.team+"/mail", `"hook_daysLeft":1`)
	s.logged("Added " + s.team + "/mail")
	eventually(t, "the annotation of the certificate that expires soon", func() error {
		object, err := s.client.CoreV1().ConfigMaps(s.team).Get(t.Context(), "mail", metav1.GetOptions{})
		if err == nil && object.Annotations["addons.example.com/expires-soon"] != "yes" {
			err = fmt.Errorf("its annotations are %v", object.Annotations)
		}
		return err
	})
	eventually(t, "the days left are a metric", func() error { return s.counts("certificate_days_left", s.team+"/mail", " 1") })
	if err := s.client.CoreV1().ConfigMaps(s.team).Delete(t.Context(), "mail", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.logged("Deleted " + s.team + "/mail")

	scale := []byte(`{"spec": {"replicas": 0}}`)
	if _, err := s.client.AppsV1().Deployments(s.namespace).Patch(t.Context(), "web", types.MergePatchType, scale, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.logged("scaled to zero", s.namespace+"/web")
}

func (s *sample) reactsToTheClock() {
	s.t.Helper()
	global, err := s.section("global")
	if err != nil {
		s.t.Fatal(err)
	}
	for to, says := range map[int]string{0: "The office is closed", 24: "The office is open"} {
		global["officeHours"] = map[string]any{"from": 0, "to": to}
		text, err := yaml.Marshal(global)
		if err != nil {
			s.t.Fatal(err)
		}
		s.configure(map[string]any{"global": string(text)})
		eventually(s.t, fmt.Sprint("a tick finds that the office is open until ", to), func() error { return s.shows("web-page", says) })
	}
}

func (s *sample) heals() {
	t := s.t
	t.Helper()
	if err := s.client.CoreV1().Services(s.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Service web is made again", func() error {
		_, err := s.client.CoreV1().Services(s.namespace).Get(t.Context(), "web", metav1.GetOptions{})
		return err
	})
}

// switchesOffWhatFails checks that a user can disable the module web while it fails. The enabled script of the module
// status-page must then disable status-page, too.
func (s *sample) switchesOffWhatFails() {
	t := s.t
	t.Helper()
	s.configure(map[string]any{"web": "replicas: many"})
	s.logged(`"subject":"web"`, `"msg":"failed"`, `write a number`)
	s.configure(map[string]any{"webEnabled": "false"})
	for _, release := range []string{"web", "status-page"} {
		eventually(t, "release "+release+" is deleted", func() error {
			n, err := s.revision(release)
			if n > 0 {
				return fmt.Errorf("it is at revision %d", n)
			}
			return err
		})
	}
	s.logged("the page /status-", "goes away; it listed")
	eventually(t, "forget-slug.sh takes the slug out of the ConfigMap", func() error {
		section, err := s.section("statusPage")
		if _, left := section["slug"]; left {
			return fmt.Errorf("it says %v", section)
		}
		return err
	})
	_, err := s.client.AppsV1().Deployments(s.namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err := gone(err); err != nil {
		t.Errorf("Deployment web: %v", err)
	}

	s.configure(map[string]any{"webEnabled": nil, "web": "{title: Back}"})
	eventually(t, "both modules are back", func() error {
		return errors.Join(s.shows("web-page", "<h1>Back</h1>", "Installation "), s.shows("status-page", "web in "+s.namespace))
	})
}

// rememberedAfterRestart checks that hooks receive the changes that were made while no operator ran, and that values
// set by hooks before the restart are still in force.
func (s *sample) rememberedAfterRestart() {
	t := s.t
	t.Helper()
	before, err := s.section("global")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.process.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.client.CoreV1().ConfigMaps(s.team).Delete(t.Context(), "www", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	revision, err := s.revision("web")
	if err != nil {
		t.Fatal(err)
	}
	s.process = start(t, s.env)
	s.logged("Deleted " + s.team + "/www")
	after, err := s.section("global")
	if err != nil {
		t.Fatal(err)
	}
	if before["installationId"] != after["installationId"] {
		t.Errorf("the id was %v and is %v", before["installationId"], after["installationId"])
	}
	if n, err := s.revision("web"); err != nil || n != revision {
		t.Errorf("release web went from revision %d to %d (%v) though nothing changed", revision, n, err)
	}
}
