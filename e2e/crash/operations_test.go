package crash_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/e2e/cluster"
)

// operations are the object operations that a hook can return, by name. If one of the operations "append", "count" and
// "unnamed" is executed twice, the objects show it.
var operations = map[string]string{
	"append":  `{operation: JSONPatch, kind: Role, namespace: ` + namespace + `, name: counted, jsonPatch: [{op: add, path: /rules/-, value: {apiGroups: [""], resources: [secrets], verbs: [get]}}]}`,
	"count":   `{operation: JQPatch, kind: ConfigMap, namespace: ` + namespace + `, name: counter, jqFilter: '.data.count |= (tonumber + 1 | tostring)'}`,
	"create":  `{operation: Create, object: {kind: ConfigMap, metadata: {name: made, namespace: ` + namespace + `, labels: {made: once}}}}`,
	"unnamed": `{operation: Create, object: {kind: ConfigMap, metadata: {generateName: made-, namespace: ` + namespace + `, labels: {made: once}}}}`,
	"delete":  `{operation: Delete, kind: ConfigMap, namespace: ` + namespace + `, name: replaced}`,
	"clear":   `{operation: Delete, kind: ConfigMap, namespace: ` + namespace + `, name: made}`,
	"replace": `{operation: Create, object: {kind: ConfigMap, metadata: {name: replaced, namespace: ` + namespace + `, labels: {made: once}}}}`,
	"merge":   `{operation: CreateOrUpdate, object: {kind: ConfigMap, metadata: {name: counter, namespace: ` + namespace + `, labels: {merged: "yes"}}}}`,
}

// inTurn are the names of operations in an order in which each operation finds the objects that it needs. For example,
// "delete" precedes "replace", which creates the deleted object again.
var inTurn = []string{"create", "append", "delete", "replace", "unnamed", "count", "merge"}

// TestKilledBetweenOperationsDoesEachOnce kills the operator once in each subtest: before one of the operations of a
// hook run, or after the last operation. In the end, each operation must have been executed exactly once.
func TestKilledBetweenOperationsDoesEachOnce(t *testing.T) {
	t.Parallel()
	for nth := range len(inTurn) + 1 {
		failpoint := fmt.Sprintf("global-onstartup:effect:%d", nth+1)
		if nth == len(inTurn) {
			failpoint = allDone
		}
		t.Run(failpoint, func(t *testing.T) {
			t.Parallel()
			doneOnce(t, failpoint, inTurn)
		})
	}
}

// TestKilledAfterAnOperationWasSentDoesItOnce kills the operator after it has executed the last operation of a hook
// run, and before it has recorded this operation. The next process must not execute the operation again.
func TestKilledAfterAnOperationWasSentDoesItOnce(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"append", "count", "create", "unnamed", "replace"} {
		var turn []string
		for _, name := range inTurn {
			if name != last {
				turn = append(turn, name)
			}
		}
		t.Run(last, func(t *testing.T) {
			t.Parallel()
			if made := doneOnce(t, allDone, append(turn, last)); len(made) != 3 {
				t.Errorf("when the operator died, only %v existed", made)
			}
		})
	}
}

// TestKilledAfterCreatingAnObjectThatCouldNotBeDeletedCreatesItOnce kills the operator after the creation of an object.
// The operation before the creation deletes the object, which does not exist at that time. The next process must not
// create the object again.
func TestKilledAfterCreatingAnObjectThatCouldNotBeDeletedCreatesItOnce(t *testing.T) {
	t.Parallel()
	made := doneOnce(t, allDone, []string{"append", "delete", "replace", "unnamed", "count", "merge", "clear", "create"})
	if len(made) != 3 {
		t.Errorf("when the operator died, only %v existed", made)
	}
}

// allDone is a failpoint that the operator reaches after all operations of the hook are executed. The operator reaches
// the failpoint "done" of this node twice: once before the hook runs, and once after all operations.
const allDone = "global-onstartup:done:2"

// doneOnce runs a hook that returns the named operations in their order, and kills the operator at the failpoint. Then
// it starts the next process, and checks that the hook ran once and that each operation was executed once. It returns
// the UIDs of the ConfigMaps that operations had created before the kill, by name.
func doneOnce(t *testing.T, failpoint string, turn []string) (before map[string]string) {
	t.Helper()
	w := newEnvironment(t)
	cluster.Start(t).AwaitGarbageCollector(t, w.operator.Namespace)
	var file strings.Builder
	for _, name := range turn {
		file.WriteString("---\n" + operations[name] + "\n")
	}
	w.lay(t, map[string]string{
		"global-hooks/all.sh": script("all", map[string]any{"onStartup": 1}, "cat >>\"$KUBERNETES_PATCH_PATH\" <<'END'\n"+file.String()+"END"),
		"modules/values.yaml": "{}\n",
		"modules/one/.keep":   "",
	})
	w.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "counter"}, Data: map[string]string{"count": "0"}})
	w.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "replaced"}})
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "counted"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}},
	}
	if _, err := w.client.RbacV1().Roles(w.operator.Namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.killAt(t, failpoint)
	before = w.madeOnce(t)
	w.quiet(t, w.start(t), 1)
	if runs := w.runs(t); len(runs) != 2 || runs[1].word != "end" {
		t.Errorf("the hook ran again: %v", runs)
	}

	counter, err := w.client.CoreV1().ConfigMaps(w.operator.Namespace).Get(t.Context(), "counter", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if counter.Data["count"] != "1" || counter.Labels["merged"] != "yes" {
		t.Errorf("the counter holds %v and is labelled %v", counter.Data, counter.Labels)
	}
	role, err = w.client.RbacV1().Roles(w.operator.Namespace).Get(t.Context(), "counted", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(role.Rules) != 2 {
		t.Errorf("a rule was added %d times", len(role.Rules)-1)
	}
	after := w.madeOnce(t)
	if len(after) != 3 {
		t.Errorf("the objects are %v", after)
	}
	for name, uid := range before {
		if diff := cmp.Diff(uid, after[name]); diff != "" {
			t.Errorf("%s was created again: %s", name, diff)
		}
	}
	return before
}

// madeOnce returns the UIDs of the ConfigMaps that operations have created, by name.
func (w *environment) madeOnce(t *testing.T) map[string]string {
	t.Helper()
	list, err := w.client.CoreV1().ConfigMaps(w.operator.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "made=once"})
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]string{}
	for _, c := range list.Items {
		made[c.Name] = string(c.UID)
	}
	return made
}
