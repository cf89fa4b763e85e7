package story

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var releaseCommands = map[string]command{
	"release":         release,
	"releases":        releases,
	"foreign-release": foreignRelease,
}

// release implements the command "release NAME revision N|uninstalling|absent". It waits until the Helm release NAME
// is deployed at revision N, is being uninstalled, or does not exist.
func release(w *environment, _ *testscript.TestScript, args []string) error {
	want := strings.Join(args[min(1, len(args)):], " ")
	if want != "absent" && want != "uninstalling" && !strings.HasPrefix(want, "revision ") {
		return usage("release NAME revision N|uninstalling|absent")
	}
	return wait(func() error {
		found, err := w.releases()
		if err != nil {
			return err
		}
		got := "absent"
		if r, ok := found[args[0]]; ok {
			got = fmt.Sprintf("revision %d", r.revision)
			if r.status != "deployed" {
				got = r.status
			}
		}
		if got != want {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

type revision struct {
	revision int
	status   string
}

// releases returns the last revision of each Helm release in the namespace of the story.
func (w *environment) releases() (map[string]revision, error) {
	secrets, err := w.kube.CoreV1().Secrets(w.namespace).List(ctx(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		return nil, err
	}
	out := map[string]revision{}
	for _, s := range secrets.Items {
		n, err := strconv.Atoi(s.Labels["version"])
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", s.Name, err)
		}
		if name := s.Labels["name"]; n > out[name].revision {
			out[name] = revision{n, s.Labels["status"]}
		}
	}
	return out, nil
}

// releases implements the command "releases". It prints the last revision and the status of each Helm release.
func releases(w *environment, ts *testscript.TestScript, _ []string) error {
	all, err := w.releases()
	for _, name := range sorted(all) {
		say(ts, fmt.Sprintf("%s revision %d %s\n", name, all[name].revision, all[name].status))
	}
	return err
}

// foreignRelease implements the command "foreign-release NAME...". It creates the Secrets of Helm releases that the
// operator has not installed.
func foreignRelease(w *environment, _ *testscript.TestScript, args []string) error {
	for _, name := range args {
		text, err := json.Marshal(map[string]any{
			"name": name, "namespace": w.namespace, "version": 1,
			"info":  map[string]any{"status": "deployed"},
			"chart": map[string]any{"metadata": map[string]any{"apiVersion": "v2", "name": name, "version": "0.1.0"}},
		})
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err = z.Write(text)
		if err = errors.Join(err, z.Close()); err != nil {
			return err
		}
		_, err = w.kube.CoreV1().Secrets(w.namespace).Create(ctx(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name:   "sh.helm.release.v1." + name + ".v1",
				Labels: map[string]string{"owner": "helm", "name": name, "status": "deployed", "version": "1"},
			},
			Type: "helm.sh/release.v1",
			Data: map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(packed.Bytes()))},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}
