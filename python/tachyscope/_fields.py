"""The fields of requests and engines, written by tools/make_python_fields: name, kind, other name, help."""

REQUEST = (
    ("negative_prompt", "text", "negative_prompt",
     "what the video should not show"),
    ("image_fit", "text", "image_fit",
     "how a picture or a video is fitted to the clip: stretch (default, as in diffusers) or crop (keeps its "
     "proportions)"),
    ("clip_preparation", "text", "clip_preparation",
     "how pictures are prepared for CLIP, with Wan 2.1's models: processor (as in diffusers: the middle is cut out) "
     "or original (the whole picture is squeezed to a square); default: by the model's layout"),
    ("width", "int", "width",
     "width in pixels"),
    ("height", "int", "height",
     "height in pixels"),
    ("frames", "int", "num_frames",
     "number of frames, a multiple of 4 plus 1, such as 81; for a talking photo the most frames to make (default: as "
     "long as the speech)"),
    ("fps", "number", "fps",
     "frames per second of the video file"),
    ("strength", "number", "strength",
     "with video: how much of it is made anew, above 0 to 1; the last part of the steps is run, so 0.7 of 50 steps "
     "are 35 (default 0.8)"),
    ("vace_strength", "text", "vace_strength",
     "for VACE models: how strongly the control is followed; one number, or one for each control block with commas; "
     "0: not at all (default: 1)"),
    ("outpaint", "text", "outpaint",
     "for VACE models: how many pixels of the clip are made anew left of, above, right of and below control_video, as"
     " L,T,R,B"),
    ("keep", "text", "keep",
     "for VACE models: the frames of the clip, FIRST-LAST from 0 on, that are those of control_video from its first "
     "one on; all others are made anew"),
    ("preset", "text", "preset",
     "settings for a distilled model: steps, sampler, shift and guidance, where you do not give them yourself "
     "(`tachyscope presets` lists what each preset sets)"),
    ("steps", "int", "num_inference_steps",
     "number of denoising steps"),
    ("guidance", "number", "guidance_scale",
     "guidance scale: how strongly the video follows the prompt; 1 or less turns it off, at half the cost"),
    ("guidance_2", "number", "guidance_scale_2",
     "guidance scale of the low-noise expert, for models with two experts (Wan 2.2 A14B); guidance is then the scale "
     "of the high-noise expert (default: the same as guidance, if that is given)"),
    ("high_noise_steps", "int", "high_noise_steps",
     "number of steps of the high-noise expert, for models with two experts (default: as long as the noise is above "
     "the model's boundary)"),
    ("shift", "number", "flow_shift",
     "shift of the flow schedule; a larger one spends more of the steps at high noise"),
    ("sampler", "text", "sampler",
     "sampler: unipc, euler, dpm++, dpm++_sde, lcm, or the list of a distilled model, such as lightx2v-4"),
    ("grid", "text", "grid",
     "whose sigmas and timesteps to use: diffusers, original, multitalk, wrapper or comfyui (default: by the model's "
     "layout, or by the sampler)"),
    ("sinusoid", "text", "sinusoid",
     "whose embedding of time to use: diffusers (float32) or original (float64) (default: by the layout)"),
    ("seed", "int", "seed",
     "seed of the noise, as in PyTorch (default 0)"),
    ("rng", "text", "rng",
     "which PyTorch generator the seed is for: cpu or cuda"),
    ("rng_multiprocessors", "int", "rng_multiprocessors",
     "number of multiprocessors of the GPU that rng cuda imitates (default 132)"),
    ("max_text_tokens", "int", "max_sequence_length",
     "number of text tokens the model reads; the rest of a longer prompt is dropped (default 512)"),
    ("audio_guidance", "number", "audio_guidance_scale",
     "guidance scale of speech: how strongly the face follows it; 1 or less turns it off. A step takes one pass, two "
     "with this or guidance above 1, three with both"),
    ("motion_frames", "int", "motion_frames",
     "number of frames that each window of a talking photo takes over from the one before, a multiple of 4 plus 1 "
     "(default 9)"),
    ("recipe", "text", "recipe",
     "whose guidance formula and random numbers to use for a talking photo: infinitetalk (default) or wrapper "
     "(ComfyUI-WanVideoWrapper, where the scale of text multiplies that of speech)"),
    ("color_correction", "number", "color_correction_strength",
     "how far the colours of a talking photo's frames are pulled back to the photo's, 0 to 1 (default 1; 0 with "
     "recipe wrapper)"),
    ("speakers", "text", "speakers",
     "when two speakers talk: together (or para; default) or one-after-the-other (or add)"),
    ("speaker_boxes", "list", "speaker_boxes",
     "where a speaker is: X0,Y0,X1,Y1 in pixels of the picture, from its top left corner; give it twice, once for "
     "each speaker (default: the left half and the right half)"),
    ("windows", "text", "context_windows",
     "for clips longer than the model was made for: predict them in overlapping windows of window_frames and blend "
     "them. none (default): the whole clip at once; static: windows at fixed places; uniform: windows at other places"
     " in each step; looped: the same for a clip whose end runs on into its beginning. With speech: infinitetalk "
     "(default), where each window begins with the last frames of the one before, or even, the same in windows of "
     "equal length that are as short as possible"),
    ("window_frames", "int", "context_frames",
     "frames in a window (default: the length the model was made for, 81 for Wan)"),
    ("window_overlap", "int", "context_overlap",
     "frames that neighbouring windows share (default 16)"),
    ("window_stride", "int", "context_stride",
     "for uniform and looped windows: largest distance between the frames of a window; below 8 no frame is skipped "
     "(default 4)"),
    ("window_mask", "text", "context_mask",
     "how windows are blended: linear (ramps where they overlap; default) or pyramid"),
    ("free_noise", "text", "free_noise",
     "with windows: on (default): later windows reuse the noise of the first one, with its frames shuffled; off: each"
     " frame has noise of its own"),
    ("riflex", "int", "riflex",
     "RIFLEx, which keeps long clips from repeating themselves: the number of the time frequency that is slowed down,"
     " 6 for Wan; 0: off (default 0)"),
    ("block", "int", "causal_block",
     "make the video block by block, for models trained for it: the number of latent frames in a block (3 for Self-"
     "Forcing and CausVid), each of which sees those before it; 0: the whole clip at once (default 0)"),
    ("block_window", "int", "causal_window",
     "with block: the number of latent frames that a block sees, its own included; 0: all (default 0)"),
    ("loras", "list", "loras",
     "an adapter (LoRA or a relative of it, from any trainer) as FILE[:strength][@high|@low|@both], where @ names an "
     "expert of a model with two; repeat the option for more adapters"),
    ("lora_mode", "text", "lora_mode",
     "how adapters are applied: merge (into the weights: takes time at the start, none per step), runtime (added to "
     "the products: no time at the start, some per step) or auto (default: runtime if the model stays loaded for more"
     " requests, and on a GPU unless products are in 8 bits)"),
    ("lora_unmatched", "text", "lora_unmatched",
     "what to do with layers of an adapter that do not fit the model: warn (default; leave them out) or error"),
    ("level", "text", "level",
     "how much accuracy to trade for speed: none (plain reference code, very slow), safe (float32, default), "
     "aggressive (bf16) or extreme (bf16 and step cache; on a GPU from 8.9 on also fp8); `tachyscope doctor` lists "
     "what each level turns on here"),
    ("dtype", "text", "dtype",
     "precision of matrix products, whatever the level says: f32, or bf16 where the CPU has instructions for it "
     "(faster, within about 1 %)"),
    ("without", "list", "without",
     "switch off these optimisations, separated by commas: names that `tachyscope doctor` lists, or a kernel as "
     "op:implementation; repeat the option for more"),
    ("residual", "text", "residual",
     "on a GPU: precision of the transformer's residual stream: f32 (as in the original; default) or bf16 (as in "
     "diffusers; default from level aggressive on)"),
    ("attention", "text", "attention",
     "precision of self-attention: auto (default: chosen by the level, at present always the activations' dtype), "
     "bf16 (whatever the level says) or int8 (on a GPU from compute capability 8.0 on, a quarter faster: queries and "
     "keys in 8 bits, on Hopper also values, where those can hold them)"),
    ("int8_keys", "text", "int8_keys",
     "with attention int8: auto (default: only with 2,048 keys or more, where it is faster) or all (also with fewer, "
     "to see what it does to small videos)"),
    ("math", "text", "math",
     "precision of the linear layers in the transformer's blocks: auto (default: chosen by the level: fp8 at level "
     "extreme on a GPU from compute capability 8.9 on, otherwise the activations' dtype), bf16 (whatever the level "
     "says), fp8 (on a GPU: e4m3 with one scale per row, half the memory for weights), int8 (the same in int8, also "
     "on a CPU) or tf32 (on a GPU with dtype f32: all linear layers round what they multiply to TF32)"),
    ("vae_math", "text", "vae_math",
     "precision of the convolutions in the VAE's residual blocks: auto (default: the activations' dtype, at every "
     "level), activations, fp8 (e4m3; on a GPU from compute capability 8.9 on with activations in bf16; works on a "
     "CPU, but slowly) or int8 (the same in int8, from compute capability 8.0 on)"),
    ("step_cache", "number", "step_cache",
     "step cache: skip a step and reuse the model's last output while its predicted relative change is below this "
     "number; 0: never; with step_cache_kind, that method's own threshold"),
    ("step_cache_kind", "text", "step_cache_kind",
     "method of the step cache: rate (default: this engine's own), easycache, teacache, magcache or taylorseer (there"
     " step_cache is the share of steps that are predicted); a published method turns the cache on with its own "
     "threshold if step_cache is not given"),
    ("sparse_attention", "number", "sparse_attention",
     "block-sparse self-attention, faster but not the same video: the share of the keys that each query attends to, "
     "such as 0.5; 0: off (default, but for models that were trained with it)"),
    ("sparse_chooser", "text", "sparse_chooser",
     "how sparse attention picks its keys: top-k (those that fit the queries best on average; default), sliding-tile "
     "(those nearest in the video) or trained (as FastWan and TurboDiffusion were trained: their default)"),
    ("sparse_dense_steps", "int", "sparse_dense_steps",
     "number of first steps without sparse attention (default: a quarter of the steps, rounded up; with trained: "
     "none)"),
    ("init_latents", "tensor", "init_latents",
     "start from the latents in this file (.safetensors, tensor 'latents') instead of noise"),
    ("image", "picture", "image",
     "picture that the video begins with (PNG, JPEG, WebP, GIF), for models that take one"),
    ("last_image", "picture", "last_image",
     "picture that the video ends with, for models that take two"),
    ("video", "video", "video",
     "video to change (mp4, mov, mkv, webm, avi, gif, a folder of pictures, or a pattern such as f_%04d.png): it is "
     "denoised anew from strength on"),
    ("control_video", "video", "control_video",
     "for VACE models: video to follow (depth, pose, lines, flow), or to keep outside of mask_video, outpaint or keep"),
    ("mask_video", "video", "mask_video",
     "video or picture that is white where video (or the control_video of a VACE model) is made anew, and black where"
     " it is kept"),
    ("reference", "picture", "reference",
     "for VACE models: picture of a person, thing or place that the video shows; repeat it for up to four"),
    ("reference_2", "picture", "reference_2",
     "second reference picture"),
    ("reference_3", "picture", "reference_3",
     "third reference picture"),
    ("reference_4", "picture", "reference_4",
     "fourth reference picture"),
    ("image_embeds", "tensor", "image_embeds",
     "CLIP embeddings of the pictures (.safetensors, tensor 'image_embeds'), in place of the image encoder"),
    ("speech", "sound", "speech",
     "what the photo says: a sound file (wav, mp3, m4a, flac, ogg) or a video with sound, for image-to-video models "
     "with InfiniteTalk; repeat it for a second person in the picture"),
    ("speech_2", "sound", "speech_2",
     "what the second person in the picture says"),
    ("speaker_mask", "picture", "speaker_mask",
     "where the first speaker is: a picture of the photo's size that is black everywhere else; repeat it for the "
     "second speaker"),
    ("speaker_mask_2", "picture", "speaker_mask_2",
     "the same for the second speaker"),
)

ENGINE = (
    ("threads", "int", "threads",
     "number of threads (default: all that this process may use); any number gives the same frames"),
    ("ranks", "int", "ranks",
     "on the CPU: divide each denoising pass among so many ranks, as several devices would (1 to 16); threads is of "
     "all of them together; the frames are the same"),
    ("gpus", "text", "gpus",
     "use several GPUs of this machine: all, how many, or which (0,2); they share each denoising pass, and the first "
     "one does the rest (generate gives each GPU videos of its own where there are enough)"),
    ("parallel", "text", "parallel",
     "how ranks share a pass: auto (guidance's branches first, then heads), or the numbers of ranks for branches, "
     "heads and keys that go round, such as cfg=2,ulysses=4,ring=1; their product is ranks; a ring above 1 changes "
     "the frames' last bits"),
    ("weights", "text", "weights",
     "how weights are held in memory: packed (float32 copies: faster), mapped (less memory), read (the files are read"
     " into memory at the start, so they may change during the run) or auto (default)"),
    ("keep_loaded", "bool", "keep_loaded",
     "keep the model, and what a run of the same shape needs, for the next request"),
    ("device", "text", "device",
     "cpu, cuda, cuda:1 …, or auto: a GPU if there is one that this build can use; on a GPU, products and activations"
     " are bf16 unless dtype says f32 or f16"),
    ("graphs", "bool", "graphs",
     "on a GPU: replay a graph of each step instead of queueing every kernel of it"),
    ("arena", "bool", "arena",
     "lay all intermediates in one block of memory that is planned beforehand"),
    ("max_vram", "int", "max_vram",
     "most GPU memory that the run may take, such as 8GiB; parts of the transformer and the text encoder that do not "
     "fit stay in host memory and are copied over when they are needed; the frames are the same (default: what is "
     "free)"),
    ("text_cache", "text", "text_cache",
     "keep encoded prompts in this folder, so that the text encoder need not be loaded for a prompt seen before; the "
     "frames are the same (default: not kept)"),
    ("verify_upload", "bool", "verify_upload",
     "on a GPU whose memory may be failing: compare the weights there with their files after loading and after the "
     "last step; takes seconds, runs without CUDA graphs, and changes no frame"),
    ("text_encoder", "text", "text_encoder",
     "text encoder to use instead of the model's own, or for a model that is a single file: a umT5 file "
     "(umt5_xxl_fp16.safetensors), a component's folder, or a model's folder (default: the model's own; for a file in"
     " ComfyUI's folders the only one there that fits)"),
    ("vae", "text", "vae",
     "VAE to use instead of the model's own: a file (wan_2.1_vae.safetensors), a component's folder, or a model's "
     "folder"),
    ("image_encoder", "text", "image_encoder",
     "CLIP vision model through which Wan 2.1's image-to-video models see their pictures: a file "
     "(clip_vision_h.safetensors), a component's folder, or a model's folder"),
    ("tokenizer", "text", "tokenizer",
     "tokenizer.json, spiece.model or a folder that has one of them (default: the one inside the text encoder's file "
     "or beside it)"),
    ("transformer_2", "text", "transformer_2",
     "low-noise expert of Wan 2.2 A14B; the high-noise one is given as the model"),
    ("infinitetalk", "text", "infinitetalk",
     "InfiniteTalk's file (infinitetalk.safetensors), which makes an image-to-video model follow speech"),
    ("audio_encoder", "text", "audio_encoder",
     "wav2vec2 model through which InfiniteTalk hears speech (chinese-wav2vec2-base): its folder or file (default: "
     "audio_encoder in the model's folder)"),
    ("idle_seconds", "int", "idle_seconds",
     "where the model stays loaded: seconds after which what is kept for a run of the same shape is given back, 0: at"
     " once, -1: never"),
)
