package addons_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/api"
)

// TestKilledDownloadLeavesNothingOnTheDisk kills a real operator while it downloads an archive that does not end, and
// another archive that expands to a GiB. Temporary files without names disappear when the process is killed. The next
// operator must remove the temporary files that have names.
func TestKilledDownloadLeavesNothingOnTheDisk(t *testing.T) {
	c := cluster.Launch(t, t.TempDir())
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	define(t, client)
	bombed, good := bomb(), packed(redis(nil))
	hanging, restarted := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dir, file, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch {
		case file == "index.yaml":
			_, _ = fmt.Fprint(w, "{apiVersion: v1, entries: {redis: [{version: 0.0.1}]}}")
		case dir == "bomb":
			_, _ = w.Write(bombed)
		default:
			select {
			case <-restarted:
				_, _ = w.Write(good)
			default:
				noise := make([]byte, 4<<20)
				_, _ = rand.Read(noise)
				_, _ = w.Write(noise)
				_ = http.NewResponseController(w).Flush()
				select {
				case <-hanging:
				case <-r.Context().Done():
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hanging) })

	environment := environmentOf(t, c)
	env := []string{"ADDON_OPERATOR_ADDONS_DEVELOP_MODE=yes", "ADDON_OPERATOR_ADDONS_RETRY=0", "ADDON_OPERATOR_ADDONS_RESYNC=0s"}
	p, err := environment.Start(env...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill() })
	configurations := client.Resource(api.NamespacedResource).Namespace(environment.Namespace)
	for _, name := range []string{"hangs", "bomb"} {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": api.Group + "/" + api.Version, "kind": api.NamespacedKind, "metadata": map[string]any{"name": name},
			"spec": map[string]any{"repositories": []any{map[string]any{"url": server.URL + "/" + name + "/index.yaml"}}},
		}}
		if _, err := configurations.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(environment.Dir, "tmp", "addons-fetch")
	// A temporary file has a name for a short time after its creation, so wait until no open file has
	// a name.
	if err := p.Until(t.Context(), "temporary files, all without names", func() bool {
		files := openBelow(p.Pid(), dir)
		named := slices.ContainsFunc(files, func(file string) bool { return !strings.HasSuffix(file, " (deleted)") })
		return len(files) > 0 && !named
	}); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	// The file represents a clone of a Mercurial repository: a kill leaves such a clone on the disk,
	// because the clone is a directory with a name.
	if err := os.WriteFile(filepath.Join(dir, "left"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	close(restarted)
	if p, err = environment.Start(env...); err != nil {
		t.Fatal(err)
	}
	if o := settled(t, configurations, "hangs"); o.Status.Phase != api.Ready {
		t.Errorf("hangs: %+v", o.Status)
	}
	if o := settled(t, configurations, "bomb"); o.Status.Phase != api.Failed || o.Status.Repositories[0].Addons[0].Reason != api.LoadingError {
		t.Errorf("bomb: %+v", o.Status)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

// openBelow returns the paths of those open files of a process that are below a directory, or were
// below it before they were removed.
func openBelow(pid int, dir string) (files []string) {
	descriptors := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(descriptors)
	if err != nil {
		return nil // the process has ended
	}
	for _, e := range entries {
		if file, err := os.Readlink(filepath.Join(descriptors, e.Name())); err == nil && strings.HasPrefix(file, dir+"/") {
			files = append(files, file)
		}
	}
	return files
}
