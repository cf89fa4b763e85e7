package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// A Table is one kind of record. A Table is the first byte of the keys of its records. The numbers
// are on disk and never change, and the number of a removed table is not used again.
type Table byte

// Tables, with the parts of their keys.
const (
	// Meta holds single records, such as the schema, the id and the epoch of the store. Key: name.
	Meta Table = iota + 1
	// Queues holds the waiting and running tasks. Key: queue, slot, complement of depth.
	Queues
	// Payloads holds the pieces of payloads that are too large for a task's header, and the items of fan-out tasks.
	// Key: task id (epoch, number), number of the piece or, for an item, its number plus 1<<32.
	Payloads
	// Unique holds, for each waiting unique task, the key of its header. Of several equal tasks, at most one waits.
	// Key: home queue, graph, node, module, hook, binding, and the configuration if the task has one. The table also
	// holds the marks of modules whose pending tasks are being canceled. Key of a mark: empty queue (no task has one),
	// graph, module. The value of a mark is a Ref as JSON.
	Unique
	// Values holds, for each section of the values, the patches that hooks have returned. Key: section.
	Values
	// EnabledOverrides holds the enabled overrides of hooks, in one record. Key: "all".
	EnabledOverrides
	// Hooks holds parsed hook configurations. Key: module (empty for a global hook), hook.
	Hooks
	// Bindings holds the attached bindings. Key: module (empty for a global hook), hook, binding.
	Bindings
	// Cursors holds the object versions delivered to hooks. Key: cursor, namespace and name of the object. In the key
	// of the cursor's own record, the namespace and the name are empty.
	Cursors
	// Versions holds the resourceVersions from which watches resume. Key: one text with the resource,
	// the namespace, the names and the selectors.
	Versions
	// Ticks holds the time of the last tick of each schedule binding. Key: module (empty for a global hook), hook,
	// binding.
	Ticks
	// ConfigMap holds the content in force and the refused content of the ConfigMap. Key: "applied" or "refused".
	ConfigMap
	// Modules holds the state of each module. Key: module.
	Modules
	// Releases holds the state of Helm releases. Key: release.
	Releases
	// Metrics holds the metrics of hooks. Key of the properties of a metric: "family", name. Key of a shard of its
	// series: "sheet", group, module or empty for global, hook, and the first position of the shard if it is not 0.
	Metrics
	// Journal holds outcomes whose effects are in progress. Key: task id (epoch, number).
	Journal
	// Deferred holds deferred tasks, which are in no queue. Key: due time, task id (epoch, number).
	Deferred
	// Quarantine holds the items that crashed the process, until a user releases or skips them. It also holds the
	// pauses. Key: id of the item or pause (epoch, number).
	Quarantine
	// Addons holds the registered addons. Key: namespace or empty for the cluster, id.
	Addons
	// Runs holds the runs. Key: run.
	Runs
	// History holds the attempts and results of tasks. Key: run, id of the record (epoch, number).
	History
	// Buckets holds the state of hooks' rate limits. Key: module (empty for a global hook), hook.
	Buckets
	// Backlogs holds, for each binding with many waiting events, their number and the newest event
	// of each object. Key: queue, graph, node, module, hook, binding, object. In the key of the
	// number, the object is empty.
	Backlogs
	// Notes holds the notes that steps write while they carry out a journal; see [SaveNote]. Key: task
	// id (epoch, number).
	Notes
	// Problems holds current problems that no failing task shows. Key: kind, module, hook, binding, object, and the
	// configuration if the problem has one.
	Problems
	// DamagedRecords holds the bytes of records that could not be read. Key: id (epoch, number).
	DamagedRecords
	// Held holds the held tasks. Key: module or empty for global, hook, queue, kind of lane, task
	// id (epoch, number).
	Held
	// Lanes holds the lanes of held tasks. Key: state ("shut" or "open"), queue, module or empty
	// for global, hook, kind.
	Lanes
	// Events holds the keys of the headers of events, which are tasks about Kubernetes objects. Key: queue, module or
	// empty for global, hook, binding, graph, node, task id (epoch, number).
	Events
	// Interruptions holds the claims that a process had on items when the process ended, if the tasks of these items
	// have been deleted. The next task that processes such an item gets the claim. Key: module or empty for global,
	// hook, binding, graph, node, and the configuration if the item has one.
	Interruptions
	// AddonNames holds the ids of the registered addons. Key: namespace or empty for the cluster,
	// name, normalized version.
	AddonNames
	// Configurations holds the state of each addons configuration. Key: namespace or empty for the
	// cluster, name.
	Configurations
	// Rounds holds the results of rounds. In a round, the operator processes an addons
	// configuration. Each record is the result of a round for one repository. Key: round (epoch,
	// number), index of the repository.
	Rounds
	// Holds is the table that says which addon contents each [Holder] uses. Key: holder, content.
	Holds
	// Holders is the table of the rounds and modules that use addon contents. Key: state ("live" or "dropped"),
	// holder.
	Holders
	// Contents describes the parsed contents of addon archives and directories. Key: content.
	Contents
	// Charts describes the charts of addons. Key: digest of the archive.
	Charts
	// Chunks holds the bytes of contents and charts in pieces. Key: "content" and content, or
	// "chart" and digest; then the number of the piece.
	Chunks
	// AddonModules holds the modules that are made from addons. Key: module.
	AddonModules
	// Actions holds the most recent commands with which people changed the work of the operator. Key: id (epoch,
	// number).
	Actions
	// Starts holds one record for each of the most recent processes that began to process tasks. Key: epoch.
	Starts
)

// tables has the name and the properties of each table, by number.
var tables = [...]struct {
	name   string
	layout string // types of the parts of a key: s is a string, u is a number of 8 bytes, i is a number of 4 bytes
	secret bool   // records can contain secrets
	raw    bool   // records need not be JSON: they can be keys, or pieces of larger records
	work   bool   // records are pending work, which [DB.DropWork] deletes, except pauses
}{
	Meta:             {name: "meta", layout: "s"},
	Queues:           {name: "queues", layout: "sui", secret: true, work: true},
	Payloads:         {name: "payloads", layout: "uuu", secret: true, raw: true, work: true},
	Unique:           {name: "unique", layout: "sssssss", raw: true, work: true},
	Values:           {name: "values", layout: "s", secret: true},
	EnabledOverrides: {name: "enabled-overrides", layout: "s"},
	Hooks:            {name: "hooks", layout: "ss"},
	Bindings:         {name: "bindings", layout: "sss"},
	Cursors:          {name: "cursors", layout: "sss", secret: true},
	Versions:         {name: "versions", layout: "s"},
	Ticks:            {name: "ticks", layout: "sss"},
	ConfigMap:        {name: "configmap", layout: "s", secret: true},
	Modules:          {name: "modules", layout: "s"},
	Releases:         {name: "releases", layout: "s"},
	Metrics:          {name: "metrics", layout: "ssssu"},
	Journal:          {name: "journal", layout: "uu", secret: true, work: true},
	Deferred:         {name: "deferred", layout: "uuu", secret: true, work: true},
	Quarantine:       {name: "quarantine", layout: "uu", secret: true, work: true},
	Addons:           {name: "addons", layout: "ss", secret: true, work: true},
	Runs:             {name: "runs", layout: "u"},
	History:          {name: "history", layout: "uuu", secret: true},
	Buckets:          {name: "buckets", layout: "ss"},
	Backlogs:         {name: "backlogs", layout: "sssssss", work: true},
	Notes:            {name: "notes", layout: "uu", secret: true, work: true},
	Problems:         {name: "problems", layout: "ssssss", secret: true},
	DamagedRecords:   {name: "damaged", layout: "uu", secret: true},
	Held:             {name: "held", layout: "ssssuu", secret: true, work: true},
	Lanes:            {name: "lanes", layout: "sssss", work: true},
	Events:           {name: "events", layout: "ssssssuu", raw: true, work: true},
	Interruptions:    {name: "interruptions", layout: "ssssss", work: true},
	AddonNames:       {name: "addon-names", layout: "sss", work: true},
	Configurations:   {name: "configurations", layout: "ss", secret: true, work: true},
	Rounds:           {name: "rounds", layout: "uuu", secret: true, work: true},
	Holds:            {name: "holds", layout: "ss", work: true},
	Holders:          {name: "holders", layout: "ss", work: true},
	Contents:         {name: "contents", layout: "s", work: true},
	Charts:           {name: "charts", layout: "s", work: true},
	Chunks:           {name: "chunks", layout: "ssu", secret: true, raw: true, work: true},
	AddonModules:     {name: "addon-modules", layout: "s", work: true},
	Actions:          {name: "actions", layout: "uu", secret: true},
	Starts:           {name: "starts", layout: "u"},
}

func (t Table) known() bool { return t > 0 && int(t) < len(tables) }

// String returns the name of the table in dumps and errors.
func (t Table) String() string {
	if !t.known() {
		return "table(" + strconv.Itoa(int(t)) + ")"
	}
	return tables[t].name
}

// ParseTable returns the table for which String returns the given name.
func ParseTable(name string) (Table, error) {
	for i, t := range tables {
		if i > 0 && t.name == name {
			return Table(i), nil
		}
	}
	return 0, fmt.Errorf("store: there is no table %q", name)
}

// A Key is the key of a record: a table and parts. Keys sort as bytes, so numbers sort by value,
// and strings of the same length by content. The methods that add a part return a new key and do
// not change the old one.
type Key []byte

// At returns the common prefix of the keys of t.
func At(t Table) Key { return Key{byte(t)} }

// Str returns k with a string added: 2 bytes of length, then the string. No transaction accepts a
// key with a string longer than 65,535 bytes.
func (k Key) Str(s string) Key {
	n := make(Key, 0, len(k)+2+len(s))
	n = append(n, k...)
	n = binary.BigEndian.AppendUint16(n, uint16(min(len(s), 1<<16-1)))
	return append(n, s...)
}

// Opt returns k with s added as its last part, or k itself if s is empty.
func (k Key) Opt(s string) Key {
	if s == "" {
		return k
	}
	return k.Str(s)
}

// Uint returns k with v added as 8 bytes in big-endian order.
func (k Key) Uint(v uint64) Key {
	n := make(Key, 0, len(k)+8)
	return binary.BigEndian.AppendUint64(append(n, k...), v)
}

// Uint32 returns k with v added as 4 bytes in big-endian order.
func (k Key) Uint32(v uint32) Key {
	n := make(Key, 0, len(k)+4)
	return binary.BigEndian.AppendUint32(append(n, k...), v)
}

// Table returns the table of k; 0 for an empty key.
func (k Key) Table() Table {
	if len(k) == 0 {
		return 0
	}
	return Table(k[0])
}

// String returns the table of k and its parts, separated by slashes. If the parts do not follow the
// layout of the table, String returns the table and the other bytes in hex.
func (k Key) String() string {
	s := k.Table().String()
	parts, err := k.split()
	if err != nil {
		return fmt.Sprintf("%s/0x%x", s, []byte(k[min(1, len(k)):]))
	}
	for _, p := range parts {
		s += fmt.Sprintf("/%v", p)
	}
	return s
}

// split returns the parts of k by the layout of its table. k may have fewer parts than the layout.
func (k Key) split() ([]any, error) {
	t := k.Table()
	if !t.known() {
		return nil, errPart
	}
	p, err := k.Parts()
	if err != nil {
		return nil, err
	}
	parts := make([]any, 0, len(tables[t].layout))
	for _, kind := range tables[t].layout {
		if !p.More() {
			break
		}
		switch kind {
		case 's':
			parts = append(parts, p.Str())
		case 'u':
			parts = append(parts, p.Uint())
		case 'i':
			parts = append(parts, p.Uint32())
		}
	}
	if p.More() {
		return nil, errPart
	}
	return parts, p.Err()
}

var errPart = errors.New("store: the key does not have the requested part")

// isCancelMark reports whether the record under k, a key of the table Unique, is the mark of a module
// whose pending tasks are being canceled.
func isCancelMark(k Key) bool {
	parts, err := k.Parts()
	return err == nil && parts.More() && parts.Str() == ""
}

// Parts reads the parts of a key, in the order in which they were added.
type Parts struct {
	rest []byte
	err  error
}

// Parts returns a reader of the parts of k after its table. An empty key is an error.
func (k Key) Parts() (Parts, error) {
	if len(k) == 0 {
		return Parts{}, errPart
	}
	return Parts{rest: k[1:]}, nil
}

// next returns the next n bytes of the key. If fewer are left, next returns nil, and from then on
// Err returns an error.
func (p *Parts) next(n int) []byte {
	if p.err == nil && len(p.rest) < n {
		p.err = errPart
	}
	if p.err != nil {
		return nil
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

// Str returns the next part, which must be a string. After an error, Str returns "".
func (p *Parts) Str() string {
	b := p.next(2)
	if b == nil {
		return ""
	}
	return string(p.next(int(binary.BigEndian.Uint16(b))))
}

// Uint returns the next part, which must be a number of 8 bytes. After an error, Uint returns 0.
func (p *Parts) Uint() uint64 {
	b := p.next(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// Uint32 returns the next part, which must be a number of 4 bytes. After an error, Uint32 returns
// 0.
func (p *Parts) Uint32() uint32 {
	b := p.next(4)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// More reports whether the key has more parts, and all parts so far could be read.
func (p *Parts) More() bool { return p.err == nil && len(p.rest) > 0 }

// Err returns an error if a part was read that the key does not have.
func (p *Parts) Err() error { return p.err }

// end returns the first key after all keys with the prefix k; nil if no key can be after them.
func (k Key) end() Key {
	for i := len(k) - 1; i >= 0; i-- {
		if k[i] != 0xff {
			e := append(Key(nil), k[:i+1]...)
			e[i]++
			return e
		}
	}
	return nil
}
