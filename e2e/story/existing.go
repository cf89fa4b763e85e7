package story

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/kustomize/kyaml/kio"
)

var existingCommands = map[string]command{"existing-release": existingRelease}

// existingRelease implements the command "existing-release NAME DIR VALUES label|value|none". It installs a Helm
// release as flant/addon-operator does, with the Helm library and without packages of this project. DIR is the
// directory of the module, and VALUES is a file with the values of the release. flant/addon-operator stores a checksum
// of the rendered manifest in the release. The last argument says where the installed release has the checksum: in a
// label, as recent versions do, in the values, as older versions do, or nowhere.
func existingRelease(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 4 || !slices.Contains([]string{"label", "value", "none"}, args[3]) {
		return usage("existing-release NAME DIR VALUES label|value|none")
	}
	name, dir, file := args[0], ts.MkAbs(args[1]), ts.MkAbs(args[2])
	flags := genericclioptions.NewConfigFlags(true)
	flags.Namespace, flags.KubeConfig = &w.namespace, &w.kubeconfig
	var config action.Configuration
	if err := config.Init(flags, w.namespace, "", func(string, ...any) {}); err != nil {
		return err
	}
	rendered, err := existingRender(&config, w.namespace, name, dir, file)
	if err != nil {
		return err
	}
	sum := md5.Sum([]byte(rendered))
	checksum := hex.EncodeToString(sum[:])

	made, values, err := existingChart(name, dir, file)
	if err != nil {
		return err
	}
	install := action.NewInstall(&config)
	install.Namespace, install.ReleaseName, install.UseReleaseName = w.namespace, name, true
	install.SkipCRDs = true
	install.PostRenderer = heritage{}
	switch args[3] {
	case "label":
		install.Labels = map[string]string{"moduleChecksum": checksum, "maintenance.deckhouse.io/no-resource-reconciliation": "false"}
	case "value":
		values = chartutil.CoalesceTables(map[string]any{"_addonOperatorModuleChecksum": checksum}, values)
	}
	_, err = install.Run(made, values)
	return err
}

// existingRender returns the rendered manifest, of which flant/addon-operator stores the checksum.
func existingRender(config *action.Configuration, namespace, name, dir, file string) (string, error) {
	made, values, err := existingChart(name, dir, file)
	if err != nil {
		return "", err
	}
	render := action.NewInstall(config)
	render.Namespace, render.ReleaseName, render.UseReleaseName = namespace, name, true
	render.DryRun, render.Replace, render.IsUpgrade, render.DisableOpenAPIValidation = true, true, true, true
	render.PostRenderer = heritage{}
	release, err := render.Run(made, values)
	if err != nil {
		return "", fmt.Errorf("render %s: %w", dir, err)
	}
	return release.Manifest, nil
}

// existingChart reads the chart in dir and the values in file. If dir has no Chart.yaml, existingChart adds one to the
// chart, and leaves out the directories crds, docs, hooks, images and lib.
func existingChart(name, dir, file string) (*chart.Chart, map[string]any, error) {
	values, err := chartutil.ReadValuesFile(file)
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "Chart.yaml")); err == nil {
		made, err := loader.Load(dir)
		return made, values, err
	}
	files := []*loader.BufferedFile{{Name: "Chart.yaml", Data: fmt.Appendf(nil, "\nname: %s\nversion: 0.2.0\n", name)}}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"crds", "docs", "hooks", "images", "lib"}, entry.Name()):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		text, err := os.ReadFile(path)
		files = append(files, &loader.BufferedFile{Name: strings.TrimPrefix(path, dir+"/"), Data: text})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	made, err := loader.LoadFiles(files)
	return made, values, err
}

// heritage is a Helm post-renderer that adds the label "heritage" to each object of a manifest.
type heritage struct{}

// Run implements postrender.PostRenderer.
func (heritage) Run(manifest *bytes.Buffer) (*bytes.Buffer, error) {
	objects, err := kio.FromBytes(manifest.Bytes())
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		labels := o.GetLabels()
		labels["heritage"] = "addon-operator"
		if err := o.SetLabels(labels); err != nil {
			return nil, err
		}
	}
	text, err := kio.StringAll(objects)
	return bytes.NewBufferString(text), err
}
