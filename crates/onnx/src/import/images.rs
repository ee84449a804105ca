//! Convolution, pooling and normalisation of `[n, channels, height, width]` and `[n, channels, length]`.

use synod_engine::Tensor;
use synod_engine::ops::{Padding, Slide};

use super::call::{Call, Item, Outcome, one};
use super::view::View;

/// Kernels of poolings and what surrounds an image stay below this; files with more are damaged.
const LARGEST: usize = 1 << 12;

/// The input as images `[n, height, width, channels]`; a sequence is an image of height 1.
fn images(view: &View) -> Result<Tensor, String> {
    match view.dims().as_slice() {
        [_, _, _, _] => Ok(view.arranged(&[0, 2, 3, 1])),
        &[n, c, l] => Ok(view.arranged(&[0, 2, 1]).reshape([n, 1, l, c])),
        other => Err(format!(
            "{other:?} is neither a batch of images [n, channels, height, width] nor of sequences [n, channels, length]"
        )),
    }
}

/// The result in the rank of the input.
fn result(images: Tensor, rank: usize) -> View {
    match (rank, images.shape().dims()) {
        (3, &[n, _, l, c]) => View::stored(images.reshape([n, l, c]), vec![0, 2, 1]),
        _ => View::images(images),
    }
}

/// A pair per axis from a list that has one number per spatial axis.
fn pair(call: &Call<'_>, name: &str, rank: usize, default: usize) -> Result<[usize; 2], String> {
    let Some(list) = call.int_list(name) else {
        return Ok([default; 2]);
    };
    let number = |i: i64| {
        usize::try_from(i)
            .ok()
            .filter(|&n| n <= LARGEST)
            .ok_or_else(|| format!("{name} {list:?} has a number outside 0..={LARGEST}"))
    };
    match (rank, list) {
        (4, &[a, b]) => Ok([number(a)?, number(b)?]),
        (3, &[a]) => Ok([1, number(a)?]),
        _ => Err(format!("{name} {list:?} does not fit {} spatial axes", rank - 2)),
    }
}

/// How the window moves, with the padding that `pads` or `auto_pad` asks for.
fn slide(call: &Call<'_>, rank: usize, extents: [usize; 2], kernel: [usize; 2]) -> Result<Slide, String> {
    let mut slide = Slide {
        stride: pair(call, "strides", rank, 1)?,
        padding: Padding::Valid,
        dilation: pair(call, "dilations", rank, 1)?,
    };
    if rank == 3 {
        (slide.stride[0], slide.dilation[0]) = (1, 1);
    }
    if kernel.iter().any(|&k| k == 0 || k > LARGEST) {
        return Err(format!("a kernel of {kernel:?} taps makes no sense"));
    }
    slide.padding = match call.text("auto_pad").as_deref() {
        None | Some("NOTSET" | "") => padding(call, rank)?,
        Some("VALID") => Padding::Valid,
        Some("SAME_UPPER") => Padding::Same,
        // Synod puts the odd position last, this one wants it first.
        Some("SAME_LOWER") => {
            let window = Slide {
                padding: Padding::Same,
                ..slide
            }
            .over(extents, kernel);
            Padding::Explicit(window.padding.map(|[low, high]| [high, low]))
        }
        Some(other) => return Err(format!("auto_pad `{other}` is not known")),
    };
    let window = slide.over(extents, kernel);
    window.output()?;
    if window.padding.iter().flatten().any(|&p| p > LARGEST) {
        return Err(format!("a padding of {:?} makes no sense", window.padding));
    }
    Ok(slide)
}

fn padding(call: &Call<'_>, rank: usize) -> Result<Padding, String> {
    let list = call.int_list("pads").unwrap_or(&[]);
    let all: Option<Vec<usize>> = list.iter().map(|&p| usize::try_from(p).ok()).collect();
    match (rank, all.as_deref()) {
        (_, Some([])) => Ok(Padding::Valid),
        (4, Some(&[top, left, bottom, right])) => Ok(Padding::Explicit([[top, bottom], [left, right]])),
        (3, Some(&[left, right])) => Ok(Padding::Explicit([[0, 0], [left, right]])),
        _ => Err(format!("pads {list:?} do not fit {} spatial axes", rank - 2)),
    }
}

fn extents(x: &Tensor) -> [usize; 2] {
    let dims = x.shape().dims();
    [dims[1], dims[2]]
}

pub(super) fn conv(call: &Call<'_>) -> Outcome {
    let view = call.view(0)?;
    let (x, weight) = (images(&view)?, call.formed(1)?);
    let &[p, q, _, outputs] = weight.shape().dims() else {
        return Err(format!("the weights {} are no kernel", weight.shape()));
    };
    let groups = usize::try_from(call.int("group", 1)).ok().filter(|&g| g > 0);
    let groups = groups.ok_or("group must be positive")?;
    let sums = x.conv(&weight, &slide(call, view.rank(), extents(&x), [p, q])?, groups);
    let sums = match call.optional(2) {
        Some(_) if sums.error().is_none() => sums + call.tensor(2)?.reshape([outputs]),
        _ => sums,
    };
    one(result(sums, view.rank()))
}

pub(super) fn pool(call: &Call<'_>) -> Outcome {
    if call.node.output.iter().skip(1).any(|o| !o.is_empty()) {
        return Err("the indices of a MaxPool are not supported".into());
    }
    let view = call.view(0)?;
    let x = images(&view)?;
    if call.int_list("kernel_shape").is_none() {
        return Err("kernel_shape is missing".into());
    }
    let mut kernel = pair(call, "kernel_shape", view.rank(), 1)?;
    if view.rank() == 3 {
        kernel[0] = 1;
    }
    let mut slide = slide(call, view.rank(), extents(&x), kernel)?;
    if call.int("ceil_mode", 0) != 0 {
        let window = slide.over(extents(&x), kernel);
        let exact = |axis: usize| {
            let [low, high] = window.padding[axis];
            let reach = (kernel[axis] - 1) * window.dilation[axis] + 1;
            (window.input[axis] + low + high)
                .saturating_sub(reach)
                .is_multiple_of(window.stride[axis])
        };
        if !(exact(0) && exact(1)) {
            return Err("ceil_mode where windows do not fit evenly is not supported".into());
        }
        slide.padding = Padding::Explicit(window.padding);
    }
    let pooled = match call.op() {
        "MaxPool" => x.max_pool(kernel, &slide),
        _ => {
            let places = slide.over(extents(&x), kernel).output()?;
            if places[0].saturating_mul(places[1]) > 1 << 24 {
                return Err(format!("a pooling with {places:?} places is too large"));
            }
            x.average_pool(kernel, &slide, call.int("count_include_pad", 0) != 0)
        }
    };
    one(result(pooled, view.rank()))
}

pub(super) fn global_pool(call: &Call<'_>) -> Outcome {
    let view = call.view(0)?;
    let x = images(&view)?;
    let &[n, _, _, c] = x.shape().dims() else {
        return Err("no images".into());
    };
    let pooled = if call.op() == "GlobalMaxPool" {
        x.max(&[1, 2])
    } else {
        x.mean(&[1, 2])
    };
    one(result(pooled.reshape([n, 1, 1, c]), view.rank()))
}

/// Uses the running estimates, and while the model is trained the batch's own, moving the estimates, as
/// [`synod_nn::layers::BatchNorm`] does.
pub(super) fn batch_norm(call: &Call<'_>) -> Outcome {
    let view = call.view(0)?;
    if view.rank() < 2 {
        return Err(format!("{:?} has no axis of channels", view.dims()));
    }
    // Channels last, wherever they lie.
    let order: Vec<usize> = std::iter::once(0).chain(2..view.rank()).chain([1]).collect();
    let x = view.arranged(&order);
    let (eps, momentum) = (call.float("epsilon", 1e-5), 1.0 - call.float("momentum", 0.9));
    let (mean, variance) = match (call.item(3)?, call.item(4)?) {
        (Item::State(mean), Item::State(variance)) if call.scope.training() => {
            let axes: Vec<usize> = (0..view.rank() - 1).collect();
            let seen = x.mean(&axes);
            let centred = &x - &seen;
            let squares = (&centred * &centred).sum(&axes);
            // Counted in the graph, so that one graph serves every batch size.
            let count = Tensor::full(1.0, &x.shape().dims()[..axes.len()]).sum(&axes);
            let move_to = |buffer, now: &Tensor| {
                let old = call.scope.buffer(buffer);
                call.scope
                    .set_buffer(buffer, old * (1.0 - momentum) + now * momentum);
            };
            move_to(*mean, &seen);
            move_to(*variance, &(&squares / (&count - 1.0).maximum(1.0)));
            (seen, &squares / &count)
        }
        _ => (call.tensor(3)?, call.tensor(4)?),
    };
    let gain = call.tensor(1)? / (variance + eps).sqrt();
    let normal = (x - mean) * gain + call.tensor(2)?;
    let mut places = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, &a)| places[a] = i);
    one(View::stored(normal, places))
}

/// Normalises the axes from `axis` on.
pub(super) fn layer_norm(call: &Call<'_>) -> Outcome {
    let x = call.tensor(0)?;
    let rank = x.shape().rank();
    let first = super::call::axis(call.int("axis", -1), rank)?;
    let axes: Vec<usize> = (first..rank).collect();
    let mut dims = x.shape().dims().to_vec();
    dims[first..].fill(1);
    let centred = &x - x.mean(&axes).reshape(dims.clone());
    let variance = (&centred * &centred).mean(&axes).reshape(dims);
    let normal = centred / (variance + call.float("epsilon", 1e-5)).sqrt() * call.tensor(1)?;
    one(match call.optional(2) {
        Some(_) => normal + call.tensor(2)?,
        None => normal,
    })
}
