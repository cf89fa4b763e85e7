package main

import (
	"fmt"
	"os"
	"path/filepath"
)

const (
	// modules is the number of modules with which most figures are measured.
	modules = 20
	// manyModules is the number of generated modules for measuring how converges scale.
	manyModules = 100
)

// chart is a template with three objects that are cheap for the control plane.
const chart = `apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s}
data:
  begun: {{ .Values.%[1]s.begun | quote }}
  domain: {{ .Values.global.domain | quote }}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec:
  selector: {app: %[1]s}
  ports: [{port: 80}]
`

// moduleHook is a hook for onStartup, beforeHelm and afterHelm. To use CPU time, each run counts up to a number, which
// is the second format argument.
const moduleHook = `#!/bin/bash
if [[ $1 == --config ]]; then
  echo '{"configVersion":"v1","onStartup":1,"beforeHelm":1,"afterHelm":1}'
  exit
fi
for ((i = 0; i < %[2]d; i++)); do :; done
echo '[{"op":"add","path":"/%[1]s/begun","value":"yes"}]' >"$VALUES_JSON_PATCH_PATH"
`

// watchHook is a hook that records its start time and its binding context. To use CPU time, each run counts up to a
// number, which is the third format argument.
const watchHook = `#!/bin/bash
now=$EPOCHREALTIME
if [[ $1 == --config ]]; then
  echo '{"configVersion":"v1","kubernetes":[{"name":"seen","apiVersion":"v1","kind":"ConfigMap","queue":"/%[1]s","labelSelector":{"matchLabels":{"for":"%[1]s"}},"namespace":{"nameSelector":{"matchNames":["%[2]s"]}},"jqFilter":".metadata.name","keepFullObjectsInMemory":false}]}'
  exit
fi
for ((i = 0; i < %[3]d; i++)); do :; done
IFS= read -r -d '' context <"$BINDING_CONTEXT_PATH"
echo "$now $context" >>"$RECORD"
`

// generate writes n modules to dir/modules, for an operator in namespace. The argument work is the number to which each
// run of a hook counts, to use CPU time.
func generate(dir, namespace string, n, work int) error {
	flags := []byte("global:\n  domain: example.com\n")
	for i := range n {
		name := moduleName(i)
		flags = fmt.Appendf(flags, "%sEnabled: true\n", name)
		for path, content := range map[string]string{
			"Chart.yaml":             "apiVersion: v2\nname: " + name + "\nversion: 0.1.0\n",
			"values.yaml":            name + ": {}\n",
			"templates/objects.yaml": fmt.Sprintf(chart, name),
			"hooks/module.sh":        fmt.Sprintf(moduleHook, name, work),
			"hooks/watch.sh":         fmt.Sprintf(watchHook, name, namespace, work),
		} {
			if err := write(filepath.Join(moduleDir(dir, i), path), content); err != nil {
				return err
			}
		}
	}
	return write(filepath.Join(dir, "modules", "values.yaml"), string(flags))
}

// moduleDir returns the directory of module i below dir.
func moduleDir(dir string, i int) string {
	return filepath.Join(dir, "modules", fmt.Sprintf("%03d-%s", i, moduleName(i)))
}

func moduleName(i int) string { return fmt.Sprintf("bench%02d", i) }

func write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o700)
}
