package store

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// A Configuration is the record of an addons configuration. The key of the record has the namespace and the name of
// the configuration.
type Configuration struct {
	UID string `json:"uid"`
	// Generation is the generation of the spec that the latest round processes.
	Generation int64 `json:"generation"`
	// Round is the ID of the latest round. The results of the round are complete if Phase is not [PhasePending].
	Round ID `json:"round"`
	// Registered is the ID of the round whose addons are registered; zero if the configuration owns no addons. While
	// a later round runs, Registered differs from Round.
	Registered ID `json:"registered,omitzero"`
	// Earlier is the ID of the last complete round, if that round is neither Registered nor Round. The store keeps
	// the contents of that round until the latest round ends.
	Earlier ID `json:"earlier,omitzero"`
	// Phase is the result of the latest round; [PhasePending] while that round runs.
	Phase Phase `json:"phase"`
	// Processed is the time at which the latest round ended; zero while that round runs.
	Processed time.Time `json:"processed,omitzero"`
	// Created is the creationTimestamp of the configuration.
	Created time.Time `json:"created,omitzero"`
	// Modules is true if the annotation addons.kyma-project.io/modules of the configuration is "true". The annotation
	// has no effect on a namespaced configuration.
	Modules bool `json:"modules,omitempty"`
	// Image is a checksum of the names of the modules with which the addons were last compared: the modules in the
	// operator's image. It is empty if the image has no modules, or if the addons cannot be used as modules.
	Image string `json:"image,omitempty"`
	// Attempts is the number of consecutive rounds with this Generation that failed for a temporary reason. Retry is
	// the time of the next round; zero if none is planned.
	Attempts int       `json:"attempts,omitempty"`
	Retry    time.Time `json:"retry,omitzero"`
	// Reasons is a checksum of the reasons why the last complete round failed; empty if that round did not fail.
	Reasons string `json:"reasons,omitempty"`
}

// A Phase is the result of the latest round of a configuration.
type Phase string

// The phases have the same names in the status of a configuration.
const (
	PhasePending Phase = "Pending"
	PhaseReady   Phase = "Ready"
	PhaseFailed  Phase = "Failed"
)

// ConfigurationKey returns the key of an addons configuration. The namespace is empty for a cluster-wide
// configuration.
func ConfigurationKey(namespace, name string) Key {
	return ConfigurationsOf(namespace).Str(name)
}

// ConfigurationsOf returns the prefix of the keys of the addons configurations in a namespace, or, if namespace is
// empty, of the cluster-wide ones.
func ConfigurationsOf(namespace string) Key { return At(Configurations).Str(namespace) }

// ParseConfigurationKey returns the namespace and the name in the key of an addons configuration.
func ParseConfigurationKey(k Key) (namespace, name string, err error) {
	p, err := k.Parts()
	if err != nil {
		return "", "", err
	}
	namespace, name = p.Str(), p.Str()
	return namespace, name, p.Err()
}

// A RepositoryResult is the result of a round for one repository of an addons configuration.
type RepositoryResult struct {
	// URL is the URL of the repository as in the spec, with placeholders.
	URL string `json:"url"`
	// Reason and Message say why the repository failed. They are empty if the repository could be read, even if some of
	// its addons failed.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Permanent is true if the repository fails in the same way until its URL or the operator changes.
	Permanent bool `json:"permanent,omitempty"`
	// Fix says how to correct the failure, if Reason alone does not.
	Fix string `json:"fix,omitempty"`
	// Index identifies the version of the index that was read. The fetcher defines its encoding.
	Index  json.RawMessage `json:"index,omitempty"`
	Addons []AddonResult   `json:"addons,omitempty"`
	// If the index could not be read, Known has the addons of the last index that was read, and Index identifies that
	// index. The round holds the contents of these addons, so that the next round does not fetch unchanged contents
	// again. If no index of this URL was ever read, Known has the names and versions of the addons of replaced URLs,
	// and Index is empty.
	Known []AddonResult `json:"known,omitempty"`
}

// An AddonResult is the result of a round for one entry of a repository's index.
type AddonResult struct {
	// Entry and EntryVersion are the name and the version of the addon in the index.
	Entry        string `json:"entry"`
	EntryVersion string `json:"entryVersion"`
	// EntryError is the error of an invalid index entry. For such an entry, nothing was fetched.
	EntryError string `json:"entryError,omitempty"`
	// Source identifies the version of the archive or directory that was read. The fetcher defines its encoding.
	Source json.RawMessage `json:"source,omitempty"`
	// Content is the name of the stored content of the archive or directory, which the round holds. It is empty if
	// nothing was fetched.
	Content string `json:"content,omitempty"`
	// ID, Name and Version are read from the files of the addon. They are empty if the addon could not be loaded.
	ID      string `json:"id,omitempty"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// ImageModule is the name of the module in the operator's image that conflicts with the addon; empty if none
	// does.
	ImageModule string `json:"imageModule,omitempty"`
	// Reason and Message say why the addon failed.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Permanent is true if the addon fails in the same way until the URL or the index of the repository, or the
	// operator, changes.
	Permanent bool `json:"permanent,omitempty"`
}

// ResultKey returns the key of a round's result for one repository. The argument repository is the index of the
// repository in the spec.
func ResultKey(round ID, repository int) Key { return ResultsOf(round).Uint(uint64(repository)) }

// ResultsOf returns the prefix of the keys of a round's results.
func ResultsOf(round ID) Key { return At(Rounds).Uint(round.Epoch).Uint(round.N) }

// A RegisteredAddon is an addon that can be used in its scope: in the cluster, or in one namespace. The key of the
// record has the namespace and the id of the addon.
type RegisteredAddon struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Normal is the normalized version. Name and Normal together are unique in the scope of the addon.
	Normal string `json:"normal"`
	// Configuration is the name of the configuration that owns the addon.
	Configuration string `json:"configuration"`
	// URL is the URL of the addon's repository, with placeholders.
	URL string `json:"url"`
	// Content is the name of the stored content of the addon's archive or directory.
	Content string `json:"content"`
}

// AddonKey returns the key of a registered addon. The namespace is empty for an addon of the cluster.
func AddonKey(namespace, id string) Key { return AddonsOf(namespace).Str(id) }

// AddonsOf returns the prefix of the keys of the addons that are registered in a namespace. An empty namespace means
// the cluster.
func AddonsOf(namespace string) Key { return At(Addons).Str(namespace) }

// ParseAddonKey returns the namespace and the id in the key of a registered addon.
func ParseAddonKey(k Key) (namespace, id string, err error) { return ParseConfigurationKey(k) }

// AddonNameKey returns the key under which the id of a registered addon is stored by its name and
// normalized version.
func AddonNameKey(namespace, name, normal string) Key {
	return At(AddonNames).Str(namespace).Str(name).Str(normal)
}

// A Holder identifies a round or a module that keeps contents in the store.
type Holder string

// roundHolder is the beginning of the holder of a round.
const roundHolder = "round "

// RoundHolder returns the holder of a round.
func RoundHolder(round ID) Holder { return Holder(roundHolder + round.String()) }

// ModuleHolder returns the holder of a module.
func ModuleHolder(module string) Holder { return Holder("module " + module) }

// HoldKey returns the key of the reference from a holder to a content.
func HoldKey(h Holder, content string) Key { return HoldsOf(h).Str(content) }

// HoldsOf returns the prefix of the keys of a holder's references.
func HoldsOf(h Holder) Key { return At(Holds).Str(string(h)) }

// HolderKey returns the key of the record that marks a holder as live or dropped. A cleanup releases the references
// of dropped holders.
func HolderKey(h Holder, dropped bool) Key {
	if dropped {
		return DroppedHolders().Str(string(h))
	}
	return liveHolders().Str(string(h))
}

func liveHolders() Key { return At(Holders).Str("live") }

// LiveRounds returns the rounds that are marked as live.
func LiveRounds(tx *Tx) (rounds []ID, err error) {
	for k := range tx.Range(liveHolders()) {
		p, err := k.Parts()
		_, holder := p.Str(), p.Str()
		if err = errors.Join(err, p.Err()); err != nil {
			return nil, err
		}
		text, isRound := strings.CutPrefix(holder, roundHolder)
		if !isRound {
			continue
		}
		round, err := ParseID(text)
		if err != nil {
			return nil, err
		}
		rounds = append(rounds, round)
	}
	return rounds, nil
}

// DroppedHolders returns the prefix of the keys of the records that mark holders as dropped.
func DroppedHolders() Key { return At(Holders).Str("dropped") }

// A Content describes the content of an addon's archive or directory. The bytes of the content are in table [Chunks].
type Content struct {
	// Refs is the number of holders of the content.
	Refs int `json:"refs"`
	// Complete is true when all chunks of the content and the chart of the addon are stored.
	Complete bool `json:"complete,omitempty"`
	// Chart is the digest of the chart of the addon; empty if the addon could not be loaded.
	Chart string `json:"chart,omitempty"`
	// Size is the number of bytes of the content.
	Size int `json:"size"`
}

// ContentKey returns the key of a content.
func ContentKey(content string) Key { return At(Contents).Str(content) }

// A Chart describes the archive of a chart. The bytes of the archive are in table [Chunks].
type Chart struct {
	// Refs is the number of contents with this chart.
	Refs int `json:"refs"`
	// Complete is true when all chunks of the chart are stored.
	Complete bool `json:"complete,omitempty"`
	// Size is the number of bytes of the archive.
	Size int `json:"size"`
}

// ChartKey returns the key of a chart.
func ChartKey(digest string) Key { return At(Charts).Str(digest) }

// ChunkSize is the number of bytes of data in each chunk except the last.
const ChunkSize = 256 << 10

// ContentChunks returns the prefix of the keys of a content's chunks.
func ContentChunks(content string) Key { return At(Chunks).Str("content").Str(content) }

// ChartChunks returns the prefix of the keys of a chart's chunks.
func ChartChunks(digest string) Key { return At(Chunks).Str("chart").Str(digest) }

// chunkMark is the first byte of each chunk. Without it, a chunk could look like a damaged record.
const chunkMark = 'z'

// SaveChunk writes chunk number i of data, counted from 0, under prefix. It reports whether data has more chunks.
func SaveChunk(tx *Tx, prefix Key, data []byte, i int) (more bool) {
	from, to := i*ChunkSize, min((i+1)*ChunkSize, len(data))
	tx.Put(prefix.Uint(uint64(i)), append([]byte{chunkMark}, data[from:to]...))
	return to < len(data)
}

var errSize = errors.New("its chunks do not have the size of its record")

// LoadChunks returns the data in the chunks under prefix. It returns a RecordError if a chunk is damaged, or if the
// data does not have size bytes.
func LoadChunks(tx *Tx, prefix Key, size int) ([]byte, error) {
	data := make([]byte, 0, size)
	for k, chunk := range tx.Range(prefix) {
		if err := damageOf(k, chunk); err != nil {
			return nil, err
		}
		if len(chunk) > 0 {
			data = append(data, chunk[1:]...)
		}
	}
	if len(data) != size && tx.err == nil {
		return nil, recordError(prefix, errSize)
	}
	return data, tx.err
}

// An AddonModule is a module that is made from a registered addon.
type AddonModule struct {
	// Content is the name of the stored content from which the module is made.
	Content string `json:"content"`
	// Used is true while the module is enabled or installed. A used module holds the content, so that the store keeps
	// the content when the addon is unregistered.
	Used bool `json:"used,omitempty"`
}

// AddonModuleKey returns the key of a module that is made from an addon.
func AddonModuleKey(module string) Key { return At(AddonModules).Str(module) }

// LoadAddonModules returns the records of all modules that are made from addons, by module name. It leaves out records
// that cannot be read, because the next discovery writes them again.
func LoadAddonModules(tx *Tx) (map[string]AddonModule, error) {
	all := map[string]AddonModule{}
	for k := range tx.Range(At(AddonModules)) {
		m, _, err := Load[AddonModule](tx, k)
		if errors.As(err, new(*RecordError)) {
			continue
		}
		if err != nil {
			return nil, err
		}
		p, err := k.Parts()
		if err != nil {
			return nil, err
		}
		all[p.Str()] = m
	}
	return all, nil
}
