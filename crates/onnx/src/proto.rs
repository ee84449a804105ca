//! The messages of an ONNX file, as far as Synod reads and writes them. Field numbers are those of `onnx.proto`.

use prost::Message;

/// `AttributeProto.type`.
pub(crate) mod kind {
    pub(crate) const INT: i32 = 2;
    pub(crate) const INTS: i32 = 7;
}

/// `TensorProto.data_type`.
pub(crate) mod element {
    pub(crate) const FLOAT: i32 = 1;
    pub(crate) const UINT8: i32 = 2;
    pub(crate) const INT8: i32 = 3;
    pub(crate) const UINT16: i32 = 4;
    pub(crate) const INT16: i32 = 5;
    pub(crate) const INT32: i32 = 6;
    pub(crate) const INT64: i32 = 7;
    pub(crate) const BOOL: i32 = 9;
    pub(crate) const FLOAT16: i32 = 10;
    pub(crate) const DOUBLE: i32 = 11;
    pub(crate) const UINT32: i32 = 12;
    pub(crate) const UINT64: i32 = 13;
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelProto {
    #[prost(int64, optional, tag = "1")]
    pub(crate) ir_version: Option<i64>,
    #[prost(string, tag = "2")]
    pub(crate) producer_name: String,
    #[prost(string, tag = "3")]
    pub(crate) producer_version: String,
    #[prost(message, optional, tag = "7")]
    pub(crate) graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) opset_import: Vec<OperatorSet>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OperatorSet {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(int64, optional, tag = "2")]
    pub(crate) version: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) output: Vec<ValueInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, tag = "4")]
    pub(crate) op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) attribute: Vec<Attribute>,
    #[prost(string, tag = "7")]
    pub(crate) domain: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(float, optional, tag = "2")]
    pub(crate) f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) i: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(crate) s: Option<Vec<u8>>,
    #[prost(message, optional, tag = "5")]
    pub(crate) t: Option<TensorProto>,
    #[prost(float, repeated, tag = "7")]
    pub(crate) floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub(crate) ints: Vec<i64>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub(crate) strings: Vec<Vec<u8>>,
    #[prost(int32, optional, tag = "20")]
    pub(crate) r#type: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) dims: Vec<i64>,
    #[prost(int32, optional, tag = "2")]
    pub(crate) data_type: Option<i32>,
    #[prost(float, repeated, tag = "4")]
    pub(crate) float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub(crate) int32_data: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    pub(crate) int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub(crate) name: String,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub(crate) raw_data: Option<Vec<u8>>,
    #[prost(double, repeated, tag = "10")]
    pub(crate) double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub(crate) uint64_data: Vec<u64>,
    #[prost(int32, optional, tag = "14")]
    pub(crate) data_location: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueInfo {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) r#type: Option<TypeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub(crate) tensor_type: Option<TensorType>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorType {
    #[prost(int32, optional, tag = "1")]
    pub(crate) elem_type: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<TensorShape>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorShape {
    #[prost(message, repeated, tag = "1")]
    pub(crate) dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub(crate) dim_value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) dim_param: Option<String>,
}
