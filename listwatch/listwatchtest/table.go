package listwatchtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodewatch-go/nodewatch/internal/podtable"
)

// tableKind is how the objects of a kind are shown in a Table.
type tableKind struct {
	columns    func() []metav1.TableColumnDefinition
	cells      func(o Object, now time.Time) []any
	conditions func(o Object) []metav1.TableRowCondition
}

// tables returns how a resource is shown; a kind without columns of its own
// shows name and age.
func tables(c *collection) tableKind {
	if c.Group == "" && c.typed {
		switch c.Kind {
		case "Pod":
			return tableKind{
				columns:    podtable.Columns,
				cells:      func(o Object, now time.Time) []any { return anys(podtable.Cells(o.(*corev1.Pod), now)) },
				conditions: func(o Object) []metav1.TableRowCondition { return podtable.Conditions(o.(*corev1.Pod)) },
			}
		case "Node":
			return tableKind{columns: nodeColumns, cells: nodeCells}
		case "Namespace":
			return tableKind{
				columns: columns("Name", "Status", "Age"),
				cells: func(o Object, now time.Time) []any {
					return []any{o.GetName(), string(o.(*corev1.Namespace).Status.Phase), podtable.Age(o.GetCreationTimestamp(), now)}
				},
			}
		case "ConfigMap":
			return tableKind{
				columns: columns("Name", "Data", "Age"),
				cells: func(o Object, now time.Time) []any {
					cm := o.(*corev1.ConfigMap)
					return []any{o.GetName(), int64(len(cm.Data) + len(cm.BinaryData)), podtable.Age(o.GetCreationTimestamp(), now)}
				},
			}
		}
	}
	return tableKind{
		columns: columns("Name", "Age"),
		cells: func(o Object, now time.Time) []any {
			return []any{o.GetName(), podtable.Age(o.GetCreationTimestamp(), now)}
		},
	}
}

// columns returns a function that makes plain column definitions.
func columns(names ...string) func() []metav1.TableColumnDefinition {
	return func() []metav1.TableColumnDefinition {
		defs := make([]metav1.TableColumnDefinition, len(names))
		for i, name := range names {
			defs[i] = metav1.TableColumnDefinition{Name: name, Type: "string"}
		}
		defs[0].Format = "name"
		return defs
	}
}

func nodeColumns() []metav1.TableColumnDefinition {
	defs := columns("Name", "Status", "Roles", "Age", "Version",
		"Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime")()
	for i := 5; i < len(defs); i++ {
		defs[i].Priority = 1
	}
	return defs
}

func nodeCells(o Object, now time.Time) []any {
	node := o.(*corev1.Node)
	status := "Unknown"
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			status = "NotReady"
			if condition.Status == corev1.ConditionTrue {
				status = "Ready"
			}
		}
	}
	if node.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	var roles []string
	for label := range node.Labels {
		if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		}
	}
	slices.Sort(roles)
	address := func(t corev1.NodeAddressType) string {
		for _, a := range node.Status.Addresses {
			if a.Type == t {
				return a.Address
			}
		}
		return "<none>"
	}
	info := node.Status.NodeInfo
	kernel := or(info.KernelVersion, "<unknown>")
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		node.Name, status, or(strings.Join(roles, ","), "<none>"), podtable.Age(node.CreationTimestamp, now), info.KubeletVersion,
		address(corev1.NodeInternalIP), address(corev1.NodeExternalIP),
		or(info.OSImage, "<unknown>"), kernel, or(info.ContainerRuntimeVersion, "<unknown>"),
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func anys(cells []string) []any {
	out := make([]any, len(cells))
	for i, cell := range cells {
		out[i] = cell
	}
	return out
}

// makeTable shows entries as a Table. The parameter includeObject says what of
// each object goes into its row.
func makeTable(r *http.Request, c *collection, entries []entry, listMeta metav1.ListMeta) (*metav1.Table, error) {
	kind, now := tables(c), time.Now()
	table := &metav1.Table{
		TypeMeta: metav1.TypeMeta{Kind: asTable, APIVersion: metav1.SchemeGroupVersion.String()},
		ListMeta: listMeta, ColumnDefinitions: kind.columns(), Rows: make([]metav1.TableRow, len(entries)),
	}
	include := metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject"))
	for i, e := range entries {
		row := metav1.TableRow{Cells: kind.cells(e.object, now)}
		if kind.conditions != nil {
			row.Conditions = kind.conditions(e.object)
		}
		switch include {
		case metav1.IncludeMetadata, "":
			row.Object = runtime.RawExtension{Object: partialMetadata(e.object)}
		case metav1.IncludeObject:
			row.Object = runtime.RawExtension{Object: withKind(e.object, c.gvk())}
		case metav1.IncludeNone:
		default:
			return nil, errors.NewBadRequest(fmt.Sprintf(
				"Unable to convert to Table as requested: includeObject: Invalid value: %q: must be 'Metadata', 'Object', 'None', or empty", include))
		}
		table.Rows[i] = row
	}
	return table, nil
}
