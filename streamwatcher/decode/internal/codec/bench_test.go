package codec

import (
	"encoding/json"
	"reflect"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

func BenchmarkPod(b *testing.B) {
	live := specimen.Pods(10000)
	typ := reflect.TypeFor[corev1.Pod]()
	var pb, js [][]byte
	for _, p := range live[:500] {
		raw, _ := p.Marshal()
		pb = append(pb, raw)
		raw, _ = json.Marshal(p)
		js = append(js, raw)
	}
	nomf := Config{Drop: []string{"metadata.managedFields"}}
	run := func(name string, data [][]byte, f func(raw []byte) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := f(data[i%len(data)]); err != nil {
					b.Fatal(err)
				}
				i++
			}
			runtime.KeepAlive(live)
		})
	}
	share := mustCompile(b, typ, Config{Drop: nomf.Drop, Share: 16384})
	intern := mustCompile(b, typ, Config{Drop: nomf.Drop, Intern: 16384})
	run("pb/gogo", pb, func(raw []byte) error { return new(corev1.Pod).Unmarshal(raw) })
	full, drop := mustCompile(b, typ, Config{}), mustCompile(b, typ, nomf)
	run("pb/full", pb, func(raw []byte) error { _, err := full.Protobuf(raw); return err })
	run("pb/nomf", pb, func(raw []byte) error { _, err := drop.Protobuf(raw); return err })
	run("pb/intern", pb, func(raw []byte) error { _, err := intern.Protobuf(raw); return err })
	run("pb/share", pb, func(raw []byte) error { _, _, err := share.ProtobufShared(raw, layout.Ptr{}, nil); return err })
	run("json/sigs", js, func(raw []byte) error { return kjson.UnmarshalCaseSensitivePreserveInts(raw, new(corev1.Pod)) })
	run("json/full", js, func(raw []byte) error { _, err := full.JSON(raw); return err })
	run("json/nomf", js, func(raw []byte) error { _, err := drop.JSON(raw); return err })
	run("json/intern", js, func(raw []byte) error { _, err := intern.JSON(raw); return err })
	run("json/share", js, func(raw []byte) error { _, _, err := share.JSONShared(raw, layout.Ptr{}, nil); return err })
	sink = live[0].DeepCopy()
	run("deepcopy", js, func(raw []byte) error { sink = live[7].DeepCopy(); return nil })
}

var sink any
