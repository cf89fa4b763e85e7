package inspect

import (
	"bytes"
	"reflect"
	"strings"

	"addon-operator/store"
)

// The functions of this file decide from the text of a record whether it can be a wanted one, so
// that few records are decoded. They depend on the order of the fields, which encoding/json keeps.
// If a record has another form, its whole text is searched.

// runField is the name of the field of the run in the text of tasks.
var runField = fieldOf("Run")

// runSign is the text of a task before its run.
var runSign = []byte(`"` + runField + `":`)

// fieldOf returns the name that a field of [store.Task] has in JSON.
func fieldOf(name string) string {
	field, _ := reflect.TypeFor[store.Task]().FieldByName(name)
	name, _, _ = strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// about returns the part of the text of a line of history that names its run, task, node, subject and queue. It leaves out the
// output, which can be long.
func about(line []byte) []byte { return before(line, "state") }

// subjectOf returns the text of the subject in a line of history or in a task, or nothing if that has no subject, and the
// text after it. known is false if the record has another form.
func subjectOf(record []byte) (subject, rest []byte, known bool) {
	if len(record) == 0 {
		return nil, nil, false
	}
	if subject, rest = plainSubject(record); subject != nil {
		return subject, rest, true
	}
	at := 1
	for range 3 { // the run, the task and the node of a line; the ID, the graph and the node of a task
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

// subjectSign is the text of a record before its subject.
var subjectSign = []byte(`"subject":`)

// plainSubject is subjectOf for most records, with fewer searches. It returns nothing if the subject is not the
// first object in the record, or if a brace in one of its names could be taken for its end.
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

// runOf returns the run in the text of a task; 0 if it has none.
func runOf(task []byte) uint64 {
	run, _ := leadingRun(task[len(aboutTask(task)):])
	return run
}

// leadingRun returns the run in a part of the text of a task that begins with the field of the run. It returns false if the part
// begins with another field.
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

// hasFailed reports whether the text can be that of a task whose last attempt failed. Most waiting
// tasks are events, whose last field is the object, which ends in a string. The fields after a
// failure end in a time, a number or a word.
func hasFailed(task []byte) bool {
	if end, ok := bytes.CutSuffix(task, []byte(`"}}`)); ok && !bytes.HasSuffix(end, []byte("Z")) {
		return false
	}
	return bytes.Contains(task, []byte(`"failed":{`))
}

// before returns the text of a record before the field with that name, or all of it if it has no
// such field. All fields before it must be strings, numbers and objects of strings.
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

// behindField returns the position after the field at a position and the comma that follows; 0 if
// there is no such field.
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

// behindStrings returns the position after the object whose fields begin at a position; 0 if they
// are not all strings.
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

// behindString returns the position after the string at a position; 0 if there is no string, or it
// has an escaped character.
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
