package inspect

import (
	"bytes"
	"reflect"
	"strings"

	"addon-operator/store"
)

// The functions of this file find single fields in the JSON text of a record. With these functions, a search decodes
// only the records that may match. The functions depend on the order of the fields, which encoding/json keeps. If a
// record has another form, its whole text is searched.

// runField is the JSON name of [store.Task.Run].
var runField = fieldOf("Run")

// runSign is the text in a task directly before the number of its run.
var runSign = []byte(`"` + runField + `":`)

// fieldOf returns the JSON name of a field of [store.Task].
func fieldOf(name string) string {
	field, _ := reflect.TypeFor[store.Task]().FieldByName(name)
	name, _, _ = strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// about returns the part of the text of a line of history that names its run, task, node, subject and queue. about
// leaves out the output, which can be long.
func about(line []byte) []byte { return before(line, "state") }

// subjectOf returns the text of the subject in a line of history or in a task, and the text after the subject. The
// result subject is empty if the record has no subject. The result known is false if the record has a form that this
// function does not know.
func subjectOf(record []byte) (subject, rest []byte, known bool) {
	if len(record) == 0 {
		return nil, nil, false
	}
	if subject, rest = plainSubject(record); subject != nil {
		return subject, rest, true
	}
	at := 1
	for range 3 { // a line has its run, task and node before the subject; a task has its ID, graph and node
		if at = behindField(record, at); at == 0 {
			return nil, nil, false
		}
	}
	rest, ok := bytes.CutPrefix(record[at:], subjectSign)
	if !ok {
		return nil, rest, true
	}
	if len(rest) == 0 || rest[0] != '{' {
		return nil, nil, false
	}
	end := behindStrings(rest, 1)
	return rest[:end], bytes.TrimPrefix(rest[end:], []byte(",")), end > 0
}

// subjectSign is the text in a record directly before its subject.
var subjectSign = []byte(`"subject":`)

// plainSubject is like subjectOf, but faster, and works only for most records. plainSubject returns nil if the subject
// is not the first object in the record, or if the first closing brace may be part of a name.
func plainSubject(record []byte) (subject, rest []byte) {
	brace := bytes.IndexByte(record[1:], '{') + 1
	if brace == 0 || !bytes.HasSuffix(record[:brace], subjectSign) {
		return nil, nil
	}
	rest = record[brace:]
	end := bytes.IndexByte(rest, '}')
	if end < len(`{"":""`) || rest[end-1] != '"' || rest[end-2] == ':' || rest[end-2] == '\\' {
		return nil, nil
	}
	return rest[:end+1], bytes.TrimPrefix(rest[end+1:], []byte(","))
}

// aboutTask returns the part of the text of a task that names its ID, node and subject.
func aboutTask(task []byte) []byte { return before(task, runField) }

// runOf returns the number of the run in the text of a task; 0 if the text has none.
func runOf(task []byte) uint64 {
	run, _ := leadingRun(task[len(aboutTask(task)):])
	return run
}

// leadingRun returns the number of the run at the beginning of part, which is a part of the text of a task. leadingRun
// returns false if part begins with another field.
func leadingRun(part []byte) (run uint64, ok bool) {
	rest, ok := bytes.CutPrefix(part, runSign)
	if !ok {
		return 0, false
	}
	for _, digit := range rest {
		if digit < '0' || digit > '9' {
			break
		}
		run = run*10 + uint64(digit-'0')
	}
	return run, true
}

// hasFailed reports whether the last attempt of a task may have failed, from the text of the task. hasFailed is fast
// for events, because most waiting tasks are events. The text of an event ends with its object, which ends with a
// string. If an attempt has failed, the text ends with a time, a number or a word.
func hasFailed(task []byte) bool {
	if end, ok := bytes.CutSuffix(task, []byte(`"}}`)); ok && !bytes.HasSuffix(end, []byte("Z")) {
		return false
	}
	return bytes.Contains(task, []byte(`"failed":{`))
}

// before returns the text of a record before the field with the given name, or the whole text if
// there is no such field. before is fast if all fields before that field are strings, numbers or
// objects of strings.
func before(record []byte, name string) []byte {
	for at := 1; at < len(record); {
		if field := record[at:]; len(field) > len(name)+2 && field[0] == '"' && field[len(name)+1] == '"' && string(field[1:len(name)+1]) == name {
			return record[:at]
		}
		end := behindField(record, at)
		if end == 0 {
			break
		}
		at = end
	}
	text, _, _ := bytes.Cut(record, []byte(`,"`+name+`":`)) // no string contains an unescaped quote
	return record[:min(len(text)+1, len(record))]
}

// behindField returns the position after the comma that follows a field. The field begins at the
// position at. behindField returns 0 if there is no such field, or if no comma follows.
func behindField(text []byte, at int) int {
	at = behindString(text, at) + 1 // the colon
	if at == 1 || at >= len(text) {
		return 0
	}
	switch text[at] {
	case '"':
		at = behindString(text, at)
	case '{':
		at = behindStrings(text, at+1)
	default:
		at += bytes.IndexByte(text[at:], ',')
	}
	if at == 0 || at >= len(text) || text[at] != ',' {
		return 0
	}
	return at + 1
}

// behindStrings returns the position after the object whose fields begin at position at; 0 if a field
// is not a string.
func behindStrings(text []byte, at int) int {
	for at < len(text) && text[at] != '}' {
		at = behindString(text, at) + 1
		if at == 1 || at >= len(text) {
			return 0
		}
		if at = behindString(text, at); at == 0 || at >= len(text) {
			return 0
		}
		if text[at] == ',' {
			at++
		}
	}
	if at >= len(text) {
		return 0
	}
	return at + 1
}

// behindString returns the position after the string that begins at position at. behindString
// returns 0 if there is no string, or if the string contains an escaped quote.
func behindString(text []byte, at int) int {
	if at >= len(text) || text[at] != '"' {
		return 0
	}
	n := bytes.IndexByte(text[at+1:], '"')
	if n < 0 || n > 0 && text[at+n] == '\\' {
		return 0
	}
	return at + n + 2
}
