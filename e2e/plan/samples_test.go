package plan_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"addon-operator/e2e/cluster"
	"addon-operator/workflow/inspect"
)

// sampleModules has the names of the directories of the sample modules with charts, by the key of the module's section
// in the ConfigMap.
var sampleModules = map[string]string{
	"web": "010-web", "teamQuotas": "020-team-quotas", "statusPage": "040-status-page", "images": "050-images",
}

// newSamples returns an environment with the sample modules and global hooks, and creates a namespace with the label
// "team". The sample hook written in Go is left out, because it lists the Deployments in all namespaces, also those of
// other tests.
func newSamples(t *testing.T, random *rand.Rand) *environment {
	t.Helper()
	w := newSite(t, random)
	w.must(os.CopyFS(w.modules, os.DirFS("../../modules")))
	w.must(os.RemoveAll(filepath.Join(w.modules, "050-images", "hooks")))
	w.must(os.CopyFS(w.site.GlobalHooksDir, os.DirFS("../../global-hooks")))
	client, err := kubernetes.NewForConfig(cluster.Start(t).Config())
	w.must(err)
	team := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.site.Namespace + "-red", Labels: map[string]string{"team": "red"}}}
	_, err = client.CoreV1().Namespaces().Create(t.Context(), team, metav1.CreateOptions{})
	w.must(err)
	w.named, w.settled = sampleModules, w.settleSamples
	w.edits = []func(string) string{
		w.setTitle, w.setTitle, w.setWebReplicas, w.setQuota, w.toggleSample, w.toggleSample, w.addTemplate, w.loseObject,
	}
	// The office hours are the whole day, so that the hook that reads the clock changes nothing. The setting
	// "instances" is the old name of "replicas". The hook rename-settings.sh renames it in the ConfigMap.
	w.settings["global"] = map[string]any{"officeHours": map[string]any{"from": 0, "to": 24}}
	w.settings["web"] = map[string]any{"title": "Hello", "instances": 2}
	w.putConfig()
	return w
}

// settleSamples waits until the operator has no tasks, so that all events and reloads that hooks cause are processed.
// Then it reads the settings and flags from the ConfigMap, because hooks may have changed them.
func (w *environment) settleSamples() {
	w.t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		pending := w.pending()
		if pending == "" {
			break
		}
		if time.Since(began) > patience {
			w.t.Fatalf("pending after %s: %s", patience, pending)
		}
	}
	object, err := w.client.Resource(configMaps).Namespace(w.site.Namespace).Get(w.t.Context(), "addon-operator", metav1.GetOptions{})
	w.must(err)
	data, _ := object.Object["data"].(map[string]any)
	w.settings, w.flags = map[string]map[string]any{}, map[string]bool{}
	for key, value := range data {
		text := fmt.Sprint(value)
		if name, isFlag := strings.CutSuffix(key, "Enabled"); isFlag {
			w.flags[name], err = strconv.ParseBool(text)
			w.must(err)
			continue
		}
		section := map[string]any{}
		w.must(yaml.Unmarshal([]byte(text), &section))
		w.settings[key] = section
	}
}

// pending returns the names of queues that have tasks, with the numbers of their tasks, or "" if no task exists.
func (w *environment) pending() string {
	w.t.Helper()
	command := exec.Command(w.site.Program, "status", "-o", "json", "--debug-unix-socket", w.site.Socket())
	body, err := command.Output()
	var status inspect.Status
	if json.Unmarshal(body, &status) != nil {
		w.t.Fatalf("status: %v\n%s", err, body)
	}
	var queues []string
	for _, q := range status.Queues {
		queues = append(queues, fmt.Sprint(q.Name, ": ", q.Tasks))
	}
	if status.Later > 0 {
		queues = append(queues, fmt.Sprint("later: ", status.Later))
	}
	return strings.Join(queues, ", ")
}

func (w *environment) setTitle(string) string {
	name := []string{"web", "statusPage"}[w.random.IntN(2)]
	return w.set(name, "title", fmt.Sprint("title ", w.random.IntN(1000)))
}

func (w *environment) setWebReplicas(string) string {
	return w.set("web", "replicas", 1+w.random.IntN(4))
}

func (w *environment) setQuota(string) string {
	return w.set("teamQuotas", "pods", 1+w.random.IntN(100)) + " " + w.set("teamQuotas", "memory", fmt.Sprint(1+w.random.IntN(9), "Gi"))
}

// toggleSample disables or enables one of the modules web, status-page and images. While web is disabled, the enabled
// script of status-page disables status-page, too.
func (w *environment) toggleSample(string) string {
	name := []string{"web", "statusPage", "images"}[w.random.IntN(3)]
	on, set := w.flags[name]
	w.flags[name] = set && !on
	return fmt.Sprintf("%sEnabled=%v", name, w.flags[name])
}
