use crate::workload::{Args, Random, Work};

fn product(args: &Args, mut multiply: impl FnMut(&mut [f32], &[f32], &[f32]) + 'static) -> Work {
    let (m, n, k) = (args.shape[0], args.shape[1], args.shape[2]);
    let mut random = Random::new(3);
    let (a, b, mut c) = (random.vector(m * k), random.vector(k * n), vec![0.0; m * n]);
    let call = Box::new(move || multiply(std::hint::black_box(&mut c), &a, &b));
    Work::Call {
        call,
        samples: None,
        flops: Some(2.0 * m as f64 * n as f64 * k as f64),
    }
}

pub fn gemm(args: &Args) -> Work {
    let (m, n, k) = (args.shape[0], args.shape[1], args.shape[2]);
    let threads = if args.threads == 1 {
        gemm::Parallelism::None
    } else {
        gemm::Parallelism::Rayon(args.threads)
    };
    product(args, move |c, a, b| {
        // SAFETY: the three slices hold row-major m*n, m*k and k*n elements, and c is not read.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                c.as_mut_ptr(),
                1,
                n as isize,
                false,
                a.as_ptr(),
                1,
                k as isize,
                b.as_ptr(),
                1,
                n as isize,
                0.0,
                1.0,
                false,
                false,
                false,
                threads,
            )
        }
    })
}

pub fn faer(args: &Args) -> Work {
    use faer::{Accum, MatMut, MatRef, Par, linalg::matmul::matmul};
    let (m, n, k) = (args.shape[0], args.shape[1], args.shape[2]);
    let threads = if args.threads == 1 {
        Par::Seq
    } else {
        Par::rayon(args.threads)
    };
    product(args, move |c, a, b| {
        matmul(
            MatMut::from_row_major_slice_mut(c, m, n),
            Accum::Replace,
            MatRef::from_row_major_slice(a, m, k),
            MatRef::from_row_major_slice(b, k, n),
            1.0,
            threads,
        );
    })
}
