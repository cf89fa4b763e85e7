package store

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestADumpUsesTheTermsOfTheDocumentation(t *testing.T) {
	t.Parallel()
	db := opened(t, new(Memory))
	task := &Task{
		ID: ID{Epoch: 1, N: 2}, Pos: Pos{Queue: "main", Slot: FirstSlot}, Node: "n", Run: 3,
		AllowFailure: true, NoBatch: true, OwnQueue: true, HomeQueue: "home", CancelsPending: true, Abandoned: true,
		Parent: &Ref{ID: ID{Epoch: 1, N: 1}}, FanOut: &FanOut{Len: 2, Group: "list"}, Claim: &Claim{Epoch: 1, Exclusive: true},
		Payload: json.RawMessage(`{"clears":"of the payload"}`),
	}
	if err := db.Update(func(tx *Tx) error {
		tx.Put(At(Metrics).Str("sheet").Str("g").Str("m").Str("h").Uint(0), []byte(`{}`))
		if err := Save(tx, StartupKey(), Startup{StartRun: 7}); err != nil {
			return err
		}
		if err := Save(tx, At(Buckets).Str("m").Str("h"), Bucket{Full: time.Unix(1, 0).UTC(), Deferrals: map[string]Deferral{"main": {}}}); err != nil {
			return err
		}
		return SaveTask(tx, task)
	}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Dump(db, &b, Queues, Buckets, Meta, Metrics); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"run":3`, `"allowFailure":true`, `"noBatch":true`, `"ownQueue":true`, `"homeQueue":"home"`, `"cancelsPending":true`, `"abandoned":true`,
		`"parent":{"id":"1-1","pos":{"queue":"","slot":0,"depth":0}}`, `"group":"list"`, `"exclusive":true`, `"payload":{"clears":"of the payload"}`,
		`"deferrals":{"main":`, `"key":["startup"],"value":{"startRun":7`, `"key":["shard","g",`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the dump does not contain %s:\n%s", want, &b)
		}
	}
	var read Task
	if err := db.View(func(tx *Tx) error {
		found, _, err := LoadTask(tx, task.Pos)
		read = *found
		return err
	}); err != nil || read.Run != 3 || !read.AllowFailure {
		t.Errorf("the stored task is %+v: %v", read, err)
	}
}

// A dump must show each field of a task by its name in the code, even if the name on disk is an older one.
func TestADumpRenamesEachFieldOfATaskWithAnOldName(t *testing.T) {
	t.Parallel()
	same := regexp.MustCompile(`(?i)[^a-z]`)
	var check func(of reflect.Type, path string)
	check = func(of reflect.Type, path string) {
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			shown := name
			if renamed, ok := taskNames[path+name]; ok {
				shown = renamed
			}
			if !strings.EqualFold(same.ReplaceAllString(shown, ""), f.Name) {
				t.Errorf("the dump shows field %s of %s as %q", f.Name, of, shown)
			}
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && inner.PkgPath() == of.PkgPath() && inner != of {
				check(inner, path+name+".")
			}
		}
	}
	check(reflect.TypeFor[Task](), "")
}
